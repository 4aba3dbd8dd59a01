import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/**
 * 364: the holder of a leader latch and of a lock is cut off until its session expires; who waits
 * is told within the bound for expiries.
 *
 * usage: CuratorExpiry HOLDER WAITER TIMEOUT LATEST
 *
 * HOLDER and WAITER are where the two connect, TIMEOUT is that of the holder's session and LATEST
 * when the waiter must have both, in ms from when the holder was cut off.
 */
public final class CuratorExpiry {
    static CuratorFramework connect(String host, int timeout) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(host, timeout, timeout, new RetryForever(100));
        client.start();
        ClientCases.check(client.blockUntilConnected((int) ClientCases.PATIENCE, TimeUnit.MILLISECONDS), "not connected");
        return client;
    }

    static void run(ClientCases c, String waiterHost, int latest) throws Exception {
        CuratorFramework holder = connect(c.hosts, c.timeout);
        CuratorFramework waiter = connect(waiterHost, 2 * c.timeout);
        LeaderLatch first = new LeaderLatch(holder, "/latch", "first");
        LeaderLatch second = new LeaderLatch(waiter, "/latch", "second");
        InterProcessMutex held = new InterProcessMutex(holder, "/lock");
        InterProcessMutex wanted = new InterProcessMutex(waiter, "/lock");
        first.start();
        ClientCases.check(first.await(ClientCases.PATIENCE, TimeUnit.MILLISECONDS), "the first was not elected");
        second.start();
        held.acquire();
        ClientCases.check(!wanted.acquire(100, TimeUnit.MILLISECONDS), "two have the lock");
        long began = System.nanoTime();
        c.pause("block");
        ClientCases.check(wanted.acquire(ClientCases.PATIENCE, TimeUnit.MILLISECONDS), "never got the lock");
        ClientCases.check(second.await(ClientCases.PATIENCE, TimeUnit.MILLISECONDS), "never elected");
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        System.out.println("both behind " + took + " ms");
        ClientCases.check(took > c.timeout / 2 && took < latest, "both behind " + took + " ms");
        wanted.release();
        second.close();
        waiter.close();
    }

    public static void main(String[] args) {
        try {
            ClientCases c = new ClientCases(args[0], Integer.parseInt(args[2]));
            run(c, args[1], Integer.parseInt(args[3]));
            c.pause("ok");
            System.exit(0);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
    }
}
