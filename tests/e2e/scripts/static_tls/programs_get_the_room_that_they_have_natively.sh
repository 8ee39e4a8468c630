for again in 1 2; do for p in ./large ./small ./foreign $W/large; do
    $p a '' b
    echo $?
    env -i $p c
done; done
sh -c './large d; exec ./large e'
(exec -a other ./large f)
ln -s large link
./link g
PATH=$W large h
cp large again
./again
rm again
