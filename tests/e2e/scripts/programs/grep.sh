grep -rn 'include' include | sort | md5sum
grep -rlE 'fn [a-z]+_[a-z]+' . | sort
grep -c define include/*.h
grep -r --include='*.rs' unsafe . | wc -l
