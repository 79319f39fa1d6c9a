import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** What an order is about: a handle of some kind and name. */
interface Subject {
    /** Returns the answer; the words are verb, name, arguments. */
    String obey(String[] words) throws Exception;

    /** Opens a handle; the name may begin with "KIND@". */
    static Subject open(RedissonClient client, String word) {
        int at = word.indexOf('@');
        String kind = at < 0 ? "lock" : word.substring(0, at);
        String name = word.substring(at + 1);
        switch (kind) {
            case "simple":
                return new Simple(client, name);
            case "semaphore":
                return new Semaphore(client.getSemaphore(name));
            case "permit":
                return new Permits(client.getPermitExpirableSemaphore(name));
            case "latch":
                return new Latch(client.getCountDownLatch(name));
            default:
                return new Locks(lock(client, kind, name));
        }
    }

    private static RLock lock(RedissonClient client, String kind,
            String name) {
        switch (kind) {
            case "lock":
                return client.getLock(name);
            case "once":
                return (RLock) call(client, "getNonReentrantLock", name);
            case "fair":
                return client.getFairLock(name);
            case "fair-once":
                return (RLock) call(client, "getNonReentrantFairLock", name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "spin":
                return client.getSpinLock(name);
            case "fenced":
                return (RLock) call(client, "getFencedLock", name);
            case "multi":
                return client.getMultiLock(Arrays.stream(name.split("\\+"))
                        .map(client::getLock).toArray(RLock[]::new));
            default:
                throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    /** Calls what an old Redisson does not have. */
    static Object call(Object target, String name, Object... arguments) {
        try {
            for (Method method : target.getClass().getMethods()) {
                if (method.getName().equals(name) && fits(method, arguments)) {
                    return method.invoke(target, arguments);
                }
            }
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof RuntimeException problem) {
                throw problem;
            }
            throw new IllegalStateException(wrapped.getCause());
        } catch (IllegalAccessException problem) {
            throw new IllegalStateException(problem);
        }
        throw new UnsupportedOperationException(name);
    }

    private static boolean fits(Method method, Object[] arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            if (!types[i].isPrimitive() && !types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }

    static String yes(boolean holds) {
        return holds ? "yes" : "no";
    }

    /** What a round of a load does while it is inside. */
    enum Inside {
        /** Adds to a number in a file, in two steps. */
        ADD,
        /** Reads that number, sleeps, and reads it again. */
        LOOK,
        /** Sleeps. */
        STAY
    }

    /** Enters, and returns what identifies this stay. */
    interface Enter {
        String run() throws Exception;
    }

    /** Leaves the stay that was entered so. */
    interface Leave {
        void run(String entered) throws Exception;
    }

    /** Words: verb, name, rounds, file of the number, file of the stays. */
    static String load(String[] words, Inside inside, Enter enter, Leave leave)
            throws Exception {
        int rounds = Integer.parseInt(words[2]);
        StringBuilder stays = new StringBuilder();
        try (RandomAccessFile file = new RandomAccessFile(words[3], "rw")) {
            for (int i = 0; i < rounds; i++) {
                String entered = enter.run();
                long entry = System.nanoTime();
                beInside(inside, file);
                long exit = System.nanoTime();
                leave.run(entered);
                stays.append(entry).append(' ').append(exit).append(' ')
                        .append(entered).append('\n');
            }
        }
        Files.writeString(Path.of(words[4]), stays);
        return String.valueOf(rounds);
    }

    private static void beInside(Inside inside, RandomAccessFile file)
            throws IOException, InterruptedException {
        if (inside == Inside.STAY) {
            Thread.sleep(1);
            return;
        }
        long number = read(file);
        if (inside == Inside.ADD) {
            file.seek(0);
            file.writeLong(number + 1);
            return;
        }
        Thread.sleep(1);
        if (read(file) != number) {
            throw new IllegalStateException("a writer beside a reader");
        }
    }

    private static long read(RandomAccessFile file) throws IOException {
        file.seek(0);
        return file.readLong();
    }
}
