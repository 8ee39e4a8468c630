import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.concurrent.atomic.LongAdder;
import org.culvert.javafuse.Call;
import org.culvert.javafuse.JavaFS;

/**
 * A method before and one behind each call that the work makes, each of which counts. Where data are
 * shown they are copied into an array and back, as in the study's second configuration.
 */
public class Hooks implements JavaFS {
    private final LongAdder before = new LongAdder();
    private final LongAdder behind = new LongAdder();
    private final ThreadLocal<byte[]> bytes = ThreadLocal.withInitial(() -> new byte[1 << 20]);

    private int pre() {
        before.increment();
        return 0;
    }

    private int post(int result) {
        behind.increment();
        return result;
    }

    private void copy(MemorySegment data, int count) {
        if (data != null && count > 0) {
            byte[] copied = bytes.get();
            MemorySegment.copy(data, ValueLayout.JAVA_BYTE, 0, copied, 0, count);
            if (!data.isReadOnly()) {
                MemorySegment.copy(copied, 0, data, ValueLayout.JAVA_BYTE, 0, count);
            }
        }
    }

    @Override
    public int getattr_pre(Call call) {
        return pre();
    }

    @Override
    public int getattr_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int fgetattr_pre(Call call) {
        return pre();
    }

    @Override
    public int fgetattr_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int create_pre(Call call) {
        return pre();
    }

    @Override
    public int create_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int open_pre(Call call) {
        return pre();
    }

    @Override
    public int open_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int release_pre(Call call) {
        return pre();
    }

    @Override
    public int release_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int flush_pre(Call call) {
        return pre();
    }

    @Override
    public int flush_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int ftruncate_pre(Call call) {
        return pre();
    }

    @Override
    public int ftruncate_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int truncate_pre(Call call) {
        return pre();
    }

    @Override
    public int truncate_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int unlink_pre(Call call) {
        return pre();
    }

    @Override
    public int unlink_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int rename_pre(Call call) {
        return pre();
    }

    @Override
    public int rename_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int chmod_pre(Call call) {
        return pre();
    }

    @Override
    public int chmod_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int utimens_pre(Call call) {
        return pre();
    }

    @Override
    public int utimens_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int opendir_pre(Call call) {
        return pre();
    }

    @Override
    public int opendir_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int readdir_pre(Call call) {
        return pre();
    }

    @Override
    public int readdir_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int releasedir_pre(Call call) {
        return pre();
    }

    @Override
    public int releasedir_post(Call call, int result) {
        return post(result);
    }

    @Override
    public int fsync_pre(Call call) {
        return pre();
    }

    @Override
    public int fsync_post(Call call, int result) {
        return post(result);
    }
    @Override
    public int read_pre(Call call) {
        return pre();
    }

    @Override
    public int read_post(Call call, int result) {
        copy(call.data, result);
        return post(result);
    }

    @Override
    public int write_pre(Call call) {
        copy(call.data, (int) call.size);
        return pre();
    }

    @Override
    public int write_post(Call call, int result) {
        return post(result);
    }
}
