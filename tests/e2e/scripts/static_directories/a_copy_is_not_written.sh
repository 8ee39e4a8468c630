cd $M && echo text > file && mkdir sub \
    && for what in 'touch new' 'mkdir new' 'rm file' 'mv file other' 'cp file sub/copy' 'ln file hard' 'dd if=/dev/zero of=file'; do busybox $what 2> /dev/null && echo "$what WORKED"; done
ls
cat file
