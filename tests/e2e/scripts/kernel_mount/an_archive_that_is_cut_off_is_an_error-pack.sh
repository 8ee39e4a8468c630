set -e
cd "$(dirname @archive@)"
seq 1 500000 > n
case @kind@ in
    tar) tar -cf @archive@ n ;;
    zip) zip -q -0 @archive@ n ;;
esac
rm n
