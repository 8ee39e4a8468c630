run cat $W/b/f
again() {
    run cat $W/b/f
    test $(copy) = $before || echo another
    stat -c '%a %h' $(copy)
    before=$(copy)
}
before=$(copy)
echo -- may be written
chmod 700 $before
again
echo -- was cut
chmod 700 $before
truncate -s 4096 $before
chmod 500 $before
again
echo -- has another name
ln $before /run/mine/other
again
echo -- is a link
mv $before /run/mine/moved
ln -s /run/mine/moved $before
again
