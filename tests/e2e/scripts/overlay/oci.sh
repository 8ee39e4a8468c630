set -e
cd @place@
culvert=@culvert@
mkdir -p base/etc base/bin app/etc image/blobs/sha256 root
echo base > base/etc/name; echo base > base/etc/gone; printf "#!/bin/sh\necho ran\n" > base/bin/run
chmod 755 base/bin/run
echo app > app/etc/name; : > app/etc/.wh.gone
tar czf base.tar -C base .; tar cf app.tar -C app .
blob() { sum=$(sha256sum < $1 | cut -d' ' -f1); cp $1 image/blobs/sha256/$sum; echo sha256:$sum; }
case $(uname -m) in x86_64) here=amd64 ;; aarch64) here=arm64 ;; *) here=$(uname -m) ;; esac
base=$(blob base.tar) app=$(blob app.tar)
echo "{\"layers\":[{\"digest\":\"$base\"},{\"digest\":\"$app\"}]}" > manifest
echo "{\"manifests\":[
    {\"digest\":\"$(blob manifest)\",\"platform\":{\"os\":\"linux\",\"architecture\":\"$here\"}},
    {\"digest\":\"$base\",\"platform\":{\"os\":\"plan9\",\"architecture\":\"$here\"}}]}" > image/index.json
echo '{"imageLayoutVersion":"1.0.0"}' > image/oci-layout
run() { $culvert run --no-private --mount type=overlay,lowerdir=$PWD/image,upperdir=memory:,target=$PWD/root$1 -- sh -c "$2"; }
run "" "cd $PWD/root; cat etc/name; ls etc; bin/run; echo more >> etc/name; cat etc/name"
run ,oci=no "ls $PWD/root"
