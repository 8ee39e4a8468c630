import org.culvert.javafuse.Call;
import org.culvert.javafuse.JavaFS;

/** A directory in JavaFuse's model: names that begin with "secret" are refused, and reads are counted. */
public class Mirror implements JavaFS {
    private final java.util.concurrent.atomic.LongAdder reads =
        new java.util.concurrent.atomic.LongAdder();

    @Override
    public int open_pre(Call call) {
        return call.path.startsWith("secret") ? -org.culvert.ErrnoException.EACCES : 0;
    }

    @Override
    public int read_post(Call call, int result) {
        reads.increment();
        return result;
    }

    @Override
    public void destroy() {
        System.err.println("reads: " + reads.sum());
    }
}
