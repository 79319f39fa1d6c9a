import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;

/** Permits with ids and leases. */
final class Permits implements Subject {
    private final RPermitExpirableSemaphore permits;

    Permits(RPermitExpirableSemaphore permits) {
        this.permits = permits;
    }

    @Override
    public String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "set": // unless it exists
                return Subject.yes(
                        permits.trySetPermits(Integer.parseInt(words[2])));
            case "assign": // whatever it was
                Subject.call(permits, "setPermits",
                        Integer.parseInt(words[2]));
                return "yes";
            case "add":
                permits.addPermits(Integer.parseInt(words[2]));
                return "yes";
            case "available":
                return String.valueOf(permits.availablePermits());
            case "total":
                return Subject.call(permits, "getPermits").toString();
            case "acquired":
                return Subject.call(permits, "acquiredPermits").toString();
            case "take": // wait, lease
                return take(Long.parseLong(words[2]),
                        Long.parseLong(words[3]));
            case "give":
                return Subject.yes(permits.tryRelease(words[2]));
            case "lease":
                return Subject.yes(permits.updateLeaseTime(words[2],
                        Long.parseLong(words[3]), TimeUnit.MILLISECONDS));
            case "load":
                return Subject.load(words, Inside.STAY, permits::acquire,
                        permits::release);
            default:
                return "error no such order";
        }
    }

    /** Returns the permit's id. */
    private String take(long wait, long lease) throws InterruptedException {
        String id;
        if (wait < 0) {
            id = lease == 0 ? permits.acquire()
                    : permits.acquire(lease, TimeUnit.MILLISECONDS);
        } else {
            id = lease == 0 ? permits.tryAcquire(wait, TimeUnit.MILLISECONDS)
                    : permits.tryAcquire(wait, lease, TimeUnit.MILLISECONDS);
        }
        return id == null ? "no" : id;
    }
}
