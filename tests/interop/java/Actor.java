import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Locks of Redisson on orders from standard input; actor.c is the same on
 * libholdfast, and docs/interop.md tells what either understands.
 *
 * <p>Arguments: the server's URL, the watchdog's lease in milliseconds.
 */
public final class Actor {
    private final RedissonClient client;
    private final PrintStream answers =
            new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final Map<String, Worker> workers = new HashMap<>();

    private Actor(RedissonClient client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws IOException {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.setThreads(4);
        config.setNettyThreads(4);
        config.setLockWatchdogTimeout(Long.parseLong(arguments[1]));
        config.useSingleServer()
                .setAddress(arguments[0])
                .setClientName("redisson")
                .setTimeout(20_000)
                .setConnectionPoolSize(16)
                .setConnectionMinimumIdleSize(4);
        new Actor(Redisson.create(config)).run();
    }

    private void run() throws IOException {
        answers.println("ready " + Redisson.class.getProtectionDomain()
                .getCodeSource().getLocation().getPath());
        BufferedReader orders = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null;
                line = orders.readLine()) {
            String[] words = line.split(" ");
            workers.computeIfAbsent(words[1], Worker::new).order(words);
        }
        Runtime.getRuntime().halt(0); // what is held stays held
    }

    /** A thread, which is an owner of locks, with handles of its own. */
    private final class Worker {
        private final ExecutorService thread;
        private final Map<String, RLock> locks = new HashMap<>();

        Worker(String name) {
            thread = Executors.newSingleThreadExecutor(
                    task -> new Thread(task, name));
        }

        void order(String[] words) {
            thread.execute(() -> {
                long start = System.nanoTime();
                String result;
                try {
                    result = obey(words);
                } catch (Exception problem) {
                    problem.printStackTrace();
                    result = "error " + problem.toString().replace('\n', ' ');
                }
                answers.println(words[0] + " " + start + " "
                        + System.nanoTime() + " " + result);
            });
        }

        private String obey(String[] words) throws Exception {
            if (words[2].equals("make")) {
                locks.remove(words[3]);
            }
            RLock lock = locks.computeIfAbsent(words[3], client::getLock);
            switch (words[2]) {
                case "make":
                    return "yes";
                case "try":
                    return yes(lock.tryLock());
                case "acquire":
                    return yes(acquire(lock, Long.parseLong(words[4]),
                            Long.parseLong(words[5])));
                case "release":
                    return release(lock);
                case "force":
                    return yes(lock.forceUnlock());
                case "locked":
                    return yes(lock.isLocked());
                case "held":
                    return yes(lock.isHeldByCurrentThread());
                case "count":
                    return String.valueOf(lock.getHoldCount());
                case "remaining":
                    return String.valueOf(lock.remainTimeToLive());
                case "hold":
                    return hold(lock, Long.parseLong(words[4]),
                            Long.parseLong(words[5]));
                case "load":
                    return load(lock, Integer.parseInt(words[4]),
                            words[5], Path.of(words[6]));
                default:
                    return "error no such order";
            }
        }
    }

    private static String yes(boolean holds) {
        return holds ? "yes" : "no";
    }

    private static boolean acquire(RLock lock, long wait, long lease)
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

    private static String release(RLock lock) {
        try {
            lock.unlock();
            return "yes";
        } catch (IllegalMonitorStateException refused) {
            return "refused";
        }
    }

    private static String hold(RLock lock, long lease, long milliseconds)
            throws InterruptedException {
        acquire(lock, -1, lease);
        long enter = System.nanoTime();
        Thread.sleep(milliseconds);
        long leave = System.nanoTime();
        return enter + " " + leave + " " + release(lock);
    }

    /** Adds to a number in a file, in two steps that only the lock guards. */
    private static String load(RLock lock, int rounds, String counter,
            Path ledger) throws IOException {
        StringBuilder stays = new StringBuilder();
        try (RandomAccessFile file = new RandomAccessFile(counter, "rw")) {
            for (int i = 0; i < rounds; i++) {
                lock.lock();
                long enter = System.nanoTime();
                file.seek(0);
                long number = file.readLong();
                file.seek(0);
                file.writeLong(number + 1);
                long leave = System.nanoTime();
                lock.unlock();
                stays.append(enter).append(' ').append(leave).append('\n');
            }
        }
        Files.writeString(ledger, stays);
        return String.valueOf(rounds);
    }
}
