for t in glibc.malloc.check=0 glibc.rtld.optional_static_tls=2048 glibc.rtld.optional_static_tls=0x100000:glibc.malloc.check=0 ''; do
    export GLIBC_TUNABLES=$t
    ./large a
    ./small
    env | grep TUNABLES
    sh -c './large b | cat'
done
