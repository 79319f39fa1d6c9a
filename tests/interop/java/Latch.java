import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;

/** A count, and who waits for its end. */
final class Latch implements Subject {
    private final RCountDownLatch latch;

    Latch(RCountDownLatch latch) {
        this.latch = latch;
    }

    @Override
    public String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "set":
                return Subject.yes(
                        latch.trySetCount(Long.parseLong(words[2])));
            case "down": // how many times
                for (int i = Integer.parseInt(words[2]); i > 0; i--) {
                    latch.countDown();
                }
                return "yes";
            case "await":
                return Subject.yes(await(Long.parseLong(words[2])));
            case "count":
                return String.valueOf(latch.getCount());
            case "delete":
                return Subject.yes(latch.delete());
            default:
                return "error no such order";
        }
    }

    private boolean await(long wait) throws InterruptedException {
        if (wait < 0) {
            latch.await();
            return true;
        }
        return latch.await(wait, TimeUnit.MILLISECONDS);
    }
}
