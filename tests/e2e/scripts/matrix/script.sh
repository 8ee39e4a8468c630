a program that nobody intercepts stores into the shadow
a mapping of the file itself shows that from the next call on that uses the mount
