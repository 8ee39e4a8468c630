cd /
PYTHONPATH=$M python3 -c 'import package; print(package.value, package.__file__)'
cp -r $M/package $W && cmp $M/package/part.py $W/package/part.py && echo copied
