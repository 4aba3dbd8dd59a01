import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.data.Stat;

/**
 * One lock of Curator, held until standard input is closed.
 *
 * usage: Locks HOSTS KIND PATH SECONDS
 *
 * It tries to acquire a lock of KIND at PATH, and prints one line when it knows the outcome:
 *
 *   held NODE     it holds the lock; NODE is the name of its node below PATH
 *   timeout       it could not acquire the lock within SECONDS
 *   error TEXT    Curator threw an exception
 *
 * If it holds the lock, it waits until its standard input is closed, and then releases the lock. It
 * always exits with status 0.
 *
 * KIND is one of:
 *
 *   mutex      InterProcessMutex
 *   revocable  InterProcessMutex that prints "revoked" when a client asks for its release
 *   read       the read lock of an InterProcessReadWriteLock
 *   write      the write lock of an InterProcessReadWriteLock
 *   semaphore  InterProcessSemaphoreV2 with one lease; its node is in PATH/leases
 *   latch      LeaderLatch
 *   selector   LeaderSelector
 */
public final class Locks {
    static final int TIMEOUT = 10_000; // ms, of the session and of connecting
    static final int RETRIES = 3;
    static final int PAUSE = 100; // ms between two retries

    /** A lock that is held. */
    interface Held {
        void release() throws Exception;
    }

    final CuratorFramework client;
    final String path;
    final long wait; // ms

    Locks(String hosts, String path, double seconds) {
        this.path = path;
        wait = (long) (seconds * 1000);
        client = CuratorFrameworkFactory.newClient(hosts, TIMEOUT, TIMEOUT, new RetryNTimes(RETRIES, PAUSE));
    }

    /** Acquires a lock of kind, or returns null after the wait. */
    Held acquire(String kind) throws Exception {
        switch (kind) {
        case "mutex":
            return acquire(new InterProcessMutex(client, path));
        case "revocable":
            InterProcessMutex revocable = new InterProcessMutex(client, path);
            revocable.makeRevocable(mutex -> print("revoked"));
            return acquire(revocable);
        case "read":
            return acquire(new InterProcessReadWriteLock(client, path).readLock());
        case "write":
            return acquire(new InterProcessReadWriteLock(client, path).writeLock());
        case "semaphore":
            Lease lease = new InterProcessSemaphoreV2(client, path, 1).acquire(wait, TimeUnit.MILLISECONDS);
            return lease == null ? null : lease::close;
        case "latch":
            LeaderLatch latch = new LeaderLatch(client, path, "curator");
            latch.start();
            return latch.await(wait, TimeUnit.MILLISECONDS) ? latch::close : null;
        case "selector":
            return select();
        default:
            throw new IllegalArgumentException("no kind " + kind);
        }
    }

    Held acquire(InterProcessLock lock) throws Exception {
        return lock.acquire(wait, TimeUnit.MILLISECONDS) ? lock::release : null;
    }

    /** Waits until a LeaderSelector leads, which it does until it is closed. */
    Held select() throws Exception {
        Object leads = new Object();
        boolean[] leading = {false};
        ExecutorService worker = Executors.newSingleThreadExecutor();
        LeaderSelector selector = new LeaderSelector(client, path, worker, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                synchronized (leads) {
                    leading[0] = true;
                    leads.notifyAll();
                    while (true) { // until close interrupts it
                        leads.wait();
                    }
                }
            }
        });
        selector.start();
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(wait);
        synchronized (leads) {
            while (!leading[0] && System.nanoTime() < end) {
                TimeUnit.NANOSECONDS.timedWait(leads, end - System.nanoTime());
            }
            return !leading[0] ? null : () -> {
                selector.close();
                worker.shutdown();
                worker.awaitTermination(TIMEOUT, TimeUnit.MILLISECONDS); // until the node is deleted
            };
        }
    }

    /** Returns the name of the node in parent that this session created. */
    String ownNode(String parent) throws Exception {
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        for (String name : client.getChildren().forPath(parent)) {
            Stat stat = client.checkExists().forPath(parent + "/" + name);
            if (stat != null && stat.getEphemeralOwner() == session) {
                return name;
            }
        }
        throw new IllegalStateException("no node of this session in " + parent);
    }

    void run(String kind) throws Exception {
        client.start();
        Held held = acquire(kind);
        if (held == null) {
            print("timeout");
            return;
        }
        print("held " + ownNode(kind.equals("semaphore") ? path + "/leases" : path));
        while (System.in.read() >= 0) { // until it is closed
        }
        held.release();
    }

    static void print(String line) {
        System.out.println(line);
    }

    public static void main(String[] args) {
        Locks locks = new Locks(args[0], args[2], Double.parseDouble(args[3]));
        try {
            locks.run(args[1]);
        } catch (Exception e) {
            print("error " + e);
        } finally {
            locks.client.close();
        }
        System.exit(0);
    }
}
