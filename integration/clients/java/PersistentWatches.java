import java.util.concurrent.CountDownLatch;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/**
 * Prints the events of persistent watches on a node, until its input ends: "ready" once they are set, then a type and a path in each
 * line. CuratorCache prints the data that it has instead.
 */
public final class PersistentWatches {
    private static final int TIMEOUT = 20_000;

    public static void main(String[] args) throws Exception {
        String kind = args[0], servers = args[1], path = args[2];
        switch (kind) {
            case "recursive" -> plain(servers, path, AddWatchMode.PERSISTENT_RECURSIVE);
            case "persistent" -> plain(servers, path, AddWatchMode.PERSISTENT);
            case "curator" -> curator(servers, path);
            case "cache" -> cache(servers, path);
            default -> throw new IllegalArgumentException(kind);
        }
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }

    private static void print(WatchedEvent event) {
        if (event.getType() != Watcher.Event.EventType.None) {
            System.out.println(event.getType() + " " + event.getPath());
        }
    }

    private static void plain(String servers, String path, AddWatchMode mode) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(servers, TIMEOUT, event -> connected.countDown());
        connected.await();
        client.addWatch(path, PersistentWatches::print, mode);
        System.out.println("ready");
    }

    private static CuratorFramework started(String servers) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, TIMEOUT, TIMEOUT, new RetryForever(200));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static void curator(String servers, String path) throws Exception {
        CountDownLatch set = new CountDownLatch(1);
        PersistentWatcher watcher = new PersistentWatcher(started(servers), path, true);
        watcher.getListenable().addListener(PersistentWatches::print);
        watcher.getResetListenable().addListener(set::countDown);
        watcher.start();
        set.await();
        System.out.println("ready");
    }

    private static void cache(String servers, String path) throws Exception {
        CountDownLatch set = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(started(servers), path);
        cache.listenable().addListener((type, before, after) -> print(type.name(), after == null ? before : after));
        cache.listenable().addListener(org.apache.curator.framework.recipes.cache.CuratorCacheListener.builder().forInitialized(set::countDown).build());
        cache.start();
        set.await();
        System.out.println("ready");
    }

    private static void print(String type, ChildData node) {
        System.out.println(type + " " + node.getPath());
    }
}
