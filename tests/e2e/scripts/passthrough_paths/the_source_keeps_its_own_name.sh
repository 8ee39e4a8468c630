S=$B/backing/source-by-name/culvert
mkdir $M/d
export S
{
    cd $S
    /bin/pwd
    cd d
    sh -c '/bin/pwd; cd $M/d; /bin/pwd; cd $S/d; env /bin/pwd'
    cd $M/d
    sh -c '/bin/pwd; cd ..; env /bin/pwd'
} | sed "s,$B,,"
