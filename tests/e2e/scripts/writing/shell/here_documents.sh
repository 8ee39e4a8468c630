cat <<< hello > f
cat f
cat > g << END
$(seq 1000 | tr '\n' ' ') $HOME_IS_UNSET
END
md5sum g
cat << 'END' | tr a-z A-Z > h
$not expanded `at all`
END
cat h
for i in 1 2 3; do cat << END; done > i
round $i
END
cat i
read -r a b <<< 'x y'
echo $b $a
cat <(echo one) <(echo two) > j
cat j
echo out > >(cat > k)
wait
sleep 0.1
while ! test -s k; do sleep 0.05; done
cat k
