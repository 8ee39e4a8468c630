@tree@ cd d
@look@ echo more >> one
rm sub/two
mkdir new
mv many new/
echo three > sub/three
busybox find . | busybox sort
busybox cat one sub/three
cd sub
busybox ls | busybox sort
(
    cd ../new
    busybox wc -l many
)
