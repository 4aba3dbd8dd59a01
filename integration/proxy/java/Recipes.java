import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Programs that use a recipe of Curator, judge themselves, and end with status 0 if nothing went wrong. */
public class Recipes {
    static final int PATIENCE = 20; // seconds, for everything
    static final AtomicInteger working = new AtomicInteger();
    static final List<String> errors = new ArrayList<>();

    static CuratorFramework connect() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(System.getenv("ROLLCALL_CONNECT"), 10_000, 5_000,
            new RetryNTimes(60, 100));
        client.start();
        client.blockUntilConnected(PATIENCE, TimeUnit.SECONDS);
        return client;
    }

    static synchronized void fail(String text) {
        errors.add(text);
    }

    static void work() throws Exception {
        if (working.incrementAndGet() > 1) {
            fail("two clients work at the same time");
        }
        Thread.sleep(20);
        working.decrementAndGet();
    }

    interface Turn {
        void run(CuratorFramework client) throws Exception;
    }

    /** Two clients, each with its thread, take a turn each. */
    static void workers(Turn turn) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Thread thread = new Thread(() -> {
                try (CuratorFramework client = connect()) {
                    turn.run(client);
                } catch (Exception e) {
                    fail(e.toString());
                }
            });
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join(PATIENCE * 1000L);
            if (thread.isAlive()) {
                fail("a client waits for ever");
            }
        }
    }

    /** A mutex; a holder whose connection was not there all the time does not work. */
    static void mutex(CuratorFramework client) throws Exception {
        boolean[] lost = new boolean[1];
        client.getConnectionStateListenable().addListener((c, state) -> {
            lost[0] = state == ConnectionState.SUSPENDED || state == ConnectionState.LOST;
        });
        InterProcessMutex mutex = new InterProcessMutex(client, "/lock");
        if (!mutex.acquire(PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no turn");
        }
        try {
            if (!lost[0]) {
                work();
            }
        } finally {
            mutex.release();
        }
    }

    static void latch(CuratorFramework client) throws Exception {
        LeaderLatch latch = new LeaderLatch(client, "/latch");
        latch.start();
        if (!latch.await(PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no turn");
        }
        if (latch.hasLeadership()) {
            work();
        }
        latch.close();
    }

    /** Adds that succeeded count once. One that did not is tried again only if the value shows that it must be. */
    static void atomicLong() throws Exception {
        try (CuratorFramework client = connect()) {
            DistributedAtomicLong value = new DistributedAtomicLong(client, "/long", new RetryNTimes(60, 100));
            value.initialize(0L);
            for (int i = 0; i < 3; i++) {
                AtomicValue<Long> result = value.increment();
                if (!result.succeeded()) {
                    fail("an increment did not succeed");
                }
            }
            long now = value.get().postValue();
            if (now != 3) {
                fail("the value is " + now);
            }
        }
    }

    static void sharedCount() throws Exception {
        try (CuratorFramework client = connect()) {
            SharedCount count = new SharedCount(client, "/count", 0);
            count.start();
            for (int i = 1; i <= 3; i++) {
                count.setCount(i);
            }
            int now = count.getCount();
            if (now != 3) {
                fail("the count is " + now);
            }
            count.close();
        }
    }

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "mutex": workers(Recipes::mutex); break;
            case "latch": workers(Recipes::latch); break;
            case "long": atomicLong(); break;
            case "count": sharedCount(); break;
            default: throw new IllegalArgumentException(args[0]);
        }
        errors.forEach(System.err::println);
        System.exit(errors.isEmpty() ? 0 : 1);
    }
}
