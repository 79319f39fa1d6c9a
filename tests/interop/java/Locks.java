import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Locks of all kinds that Redisson has. */
final class Locks implements Subject {
    private final RLock lock;

    Locks(RLock lock) {
        this.lock = lock;
    }

    @Override
    public String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "try":
                return unlessOwn(lock::tryLock);
            case "acquire":
                return unlessOwn(() -> acquire(Long.parseLong(words[2]),
                        Long.parseLong(words[3])));
            case "take":
                return take(Long.parseLong(words[2]),
                        Long.parseLong(words[3]));
            case "token":
                return Subject.call(lock, "getToken").toString();
            case "release":
                return release();
            case "force":
                return Subject.yes(lock.forceUnlock());
            case "locked":
                return Subject.yes(lock.isLocked());
            case "held":
                return Subject.yes(lock.isHeldByCurrentThread());
            case "count":
                return String.valueOf(lock.getHoldCount());
            case "remaining":
                return String.valueOf(lock.remainTimeToLive());
            case "hold":
                return hold(Long.parseLong(words[2]),
                        Long.parseLong(words[3]));
            case "load":
                return Subject.load(words, isRead() ? Inside.LOOK : Inside.ADD,
                        this::enter, entered -> lock.unlock());
            default:
                return "error no such order";
        }
    }

    private interface Attempt {
        boolean run() throws InterruptedException;
    }

    /** A non-reentrant kind refuses what its owner has. */
    private static String unlessOwn(Attempt attempt)
            throws InterruptedException {
        try {
            return Subject.yes(attempt.run());
        } catch (IllegalMonitorStateException own) {
            return "own";
        }
    }

    private boolean acquire(long wait, long lease)
            throws InterruptedException {
        if (wait < 0 && lease == 0) {
            lock.lock();
            return true;
        }
        if (wait < 0) {
            lock.lock(lease, TimeUnit.MILLISECONDS);
            return true;
        }
        if (lease == 0) {
            return lock.tryLock(wait, TimeUnit.MILLISECONDS);
        }
        return lock.tryLock(wait, lease, TimeUnit.MILLISECONDS);
    }

    /** Returns the fencing token. */
    private String take(long wait, long lease) {
        Object token = lease == 0
                ? Subject.call(lock, "tryLockAndGetToken", wait,
                        TimeUnit.MILLISECONDS)
                : Subject.call(lock, "tryLockAndGetToken", wait, lease,
                        TimeUnit.MILLISECONDS);
        return token == null ? "no" : token.toString();
    }

    private String release() {
        try {
            lock.unlock();
            return "yes";
        } catch (IllegalMonitorStateException refused) {
            return "refused";
        }
    }

    private String hold(long lease, long milliseconds)
            throws InterruptedException {
        acquire(-1, lease);
        long enter = System.nanoTime();
        Thread.sleep(milliseconds);
        long leave = System.nanoTime();
        return enter + " " + leave + " " + release();
    }

    private String enter() {
        if (lock.getClass().getSimpleName().equals("RedissonFencedLock")) {
            return Subject.call(lock, "lockAndGetToken").toString();
        }
        lock.lock();
        return "-";
    }

    private boolean isRead() {
        return lock.getClass().getSimpleName().equals("RedissonReadLock");
    }
}
