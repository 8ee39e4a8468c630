cd $M
java -Xshare:auto -cp hello.jar Hello a b
java -jar $M/hello.jar
cd /
java -cp $M/classes Hello x
javac -d $W $M/Hello.java && java -cp $W Hello
unzip -l $M/hello.jar 2> /dev/null | awk '{ print $4 }' | grep Hello
jar tf $M/hello.jar | sort
java -version 2>&1 | head -n 1
