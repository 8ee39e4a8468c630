cd $W
printf 'public class H { static native int twice(int x); public static void main(String[] a) throws Exception { System.load(System.getProperty("user.dir") + "/libtwice.so"); String home = System.getProperty("java.home"); System.out.println(twice(21) + home + ProcessHandle.current().info().command().get()); if (a.length == 0) System.exit(new ProcessBuilder(home + "/bin/java", "-cp", ".", "H", "x").inheritIO().start().waitFor()); } }' > H.java
printf '#include <jni.h>\nJNIEXPORT jint JNICALL Java_H_twice(JNIEnv *e, jclass c, jint x) { return 2 * x; }' \
    | cc -shared -fPIC -I$M/include -I$M/include/linux -o libtwice.so -xc -
$M/bin/javac H.java && $M/bin/java -cp . H 2> /dev/null
JAVA_HOME=$M $M/bin/jar cf h.jar H.class
$M/bin/java -Xshare:off -cp h.jar H x 2> /dev/null
$M/bin/java --list-modules
