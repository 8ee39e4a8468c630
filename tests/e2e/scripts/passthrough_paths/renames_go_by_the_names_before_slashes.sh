mkdir -p $M/d/x/below $M/d/y
exec python3 -c '
import os, sys
os.chdir(sys.argv[1])
def rename(old, new):
    try:
        os.rename(old, new)
        print(old, new, "renamed")
    except OSError as error:
        print(old, new, error.strerror)
for base in "", sys.argv[1] + "/":
    for slashes in "/", "//", "":
        for new in "d/x/new", "d/x/new/", "d/x/below/new", "d/x//new":
            rename(f"{base}d/x{slashes}", base + new)
        rename(f"{base}d/y{slashes}", f"{base}d/x/y")
        rename(f"{base}d/x/y{slashes}", f"{base}d/y")
        rename(f"{base}d/x{slashes}", f"{base}d/z")
        rename(f"{base}d/z", f"{base}d/x{slashes}")
print(sorted((at, names) for at, names, _ in os.walk("d")))
' $M | sed "s#$M#M#g"
