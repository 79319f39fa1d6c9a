import java.util.List;
import java.util.UUID;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * The lock that many Java programs make themselves: SET with NX and PX, a
 * script that compares and deletes, and a loop around it. Redisson only carries
 * the commands.
 */
final class Simple implements Subject {
    private static final String SET =
            "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])"
            + " and '1' or '0'";
    private static final String COMPARE_AND_DELETE =
            "local value = redis.call('get', KEYS[1]) "
            + "if not value then return '-1' end "
            + "if value ~= ARGV[1] then return '0' end "
            + "redis.call('del', KEYS[1]) return '1'";
    private static final long LEASE = 30_000;
    private static final long PAUSE = 10;

    private final RScript script;
    private final String name;
    private final String own = UUID.randomUUID().toString();

    Simple(RedissonClient client, String name) {
        this.script = client.getScript(StringCodec.INSTANCE);
        this.name = name;
    }

    @Override
    public String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "try":
                return Subject.yes(set(LEASE));
            case "acquire":
                return Subject.yes(acquire(Long.parseLong(words[2]),
                        Long.parseLong(words[3])));
            case "release":
                return release() == 1 ? "yes" : "refused";
            case "give": // whatever the key has
                return String.valueOf(release(words[2]));
            case "load":
                return Subject.load(words, Inside.ADD, () -> {
                    acquire(-1, LEASE);
                    return "-";
                }, entered -> release());
            default:
                return "error no such order";
        }
    }

    private boolean set(long lease) {
        return run(SET, own, String.valueOf(lease)) == 1;
    }

    private long release() {
        return release(own);
    }

    private long release(String owner) {
        return run(COMPARE_AND_DELETE, owner);
    }

    private long run(String text, Object... arguments) {
        String reply = script.eval(RScript.Mode.READ_WRITE, text,
                RScript.ReturnType.VALUE, List.of(name), arguments);
        return Long.parseLong(reply);
    }

    private boolean acquire(long wait, long lease)
            throws InterruptedException {
        long start = System.nanoTime();
        while (!set(lease)) {
            long waited = (System.nanoTime() - start) / 1_000_000;
            if (wait >= 0 && waited >= wait) {
                return false;
            }
            Thread.sleep(PAUSE);
        }
        return true;
    }
}
