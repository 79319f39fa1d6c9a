import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Locks and synchronizers of Redisson on orders from standard input; actor.c is
 * the same on libholdfast, and docs/interop.md tells what either understands.
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
            Worker worker = workers.computeIfAbsent(words[1], Worker::new);
            if (words[2].equals("parked")) {
                answer(words[0], System.nanoTime(),
                        Subject.yes(worker.isParked()));
            } else {
                worker.order(words);
            }
        }
        Runtime.getRuntime().halt(0); // what is held stays held
    }

    private void answer(String id, long start, String result) {
        answers.println(id + " " + start + " " + System.nanoTime() + " "
                + result);
    }

    /** A thread, which is an owner of locks, with handles of its own. */
    private final class Worker {
        private final ExecutorService thread;
        private volatile Thread self;
        private final Map<String, Subject> subjects = new HashMap<>();

        Worker(String name) {
            thread = Executors.newSingleThreadExecutor(task -> {
                self = new Thread(task, name);
                return self;
            });
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
                answer(words[0], start, result);
            });
        }

        /** Whether the thread sleeps until a message comes. */
        boolean isParked() {
            for (StackTraceElement frame : self.getStackTrace()) {
                if (frame.getClassName().equals(
                        "java.util.concurrent.Semaphore")) {
                    return self.getState() == Thread.State.TIMED_WAITING;
                }
            }
            return false;
        }

        private String obey(String[] words) throws Exception {
            if (words[2].equals("make")) {
                subjects.remove(words[3]);
                return "yes";
            }
            return subjects.computeIfAbsent(words[3],
                            word -> Subject.open(client, word))
                    .obey(Arrays.copyOfRange(words, 2, words.length));
        }
    }
}
