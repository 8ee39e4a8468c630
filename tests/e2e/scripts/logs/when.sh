export TZ=@zone@
cd @base@
script='date "+@date@"; mkdir target/d; date "+@date@"'
@culvert@ run --mount type=passthrough,source=$PWD/source,target=$PWD/target,layer=log,log.file=$PWD/log,log.format=@format@ -- bash -c "$script"
