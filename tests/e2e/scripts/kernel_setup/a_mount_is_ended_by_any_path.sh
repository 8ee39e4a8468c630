cd @value@
mkdir -p target/sub
ln -sfn target link
cd @at@
@command@ umount @path@ && ls @target@
