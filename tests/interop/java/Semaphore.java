import java.util.concurrent.TimeUnit;
import org.redisson.api.RSemaphore;

/** Permits without owners. */
final class Semaphore implements Subject {
    private final RSemaphore semaphore;

    Semaphore(RSemaphore semaphore) {
        this.semaphore = semaphore;
    }

    @Override
    public String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "set":
                return Subject.yes(
                        semaphore.trySetPermits(Integer.parseInt(words[2])));
            case "add":
                semaphore.addPermits(Integer.parseInt(words[2]));
                return "yes";
            case "drain":
                return String.valueOf(semaphore.drainPermits());
            case "available":
                return String.valueOf(semaphore.availablePermits());
            case "take": // how many, wait
                return Subject.yes(take(Integer.parseInt(words[2]),
                        Long.parseLong(words[3])));
            case "give":
                semaphore.release(Integer.parseInt(words[2]));
                return "yes";
            case "delete":
                return Subject.yes(semaphore.delete());
            case "load":
                return Subject.load(words, Inside.STAY, () -> {
                    semaphore.acquire();
                    return "-";
                }, entered -> semaphore.release());
            default:
                return "error no such order";
        }
    }

    private boolean take(int permits, long wait) throws InterruptedException {
        if (wait < 0) {
            semaphore.acquire(permits);
            return true;
        }
        if (wait == 0) {
            return semaphore.tryAcquire(permits);
        }
        return semaphore.tryAcquire(permits, wait, TimeUnit.MILLISECONDS);
    }
}
