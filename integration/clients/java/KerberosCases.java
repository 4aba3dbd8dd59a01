import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * A login by Kerberos with ZooKeeper's own Java client, as the section Client of the JAAS file.
 *
 * usage: KerberosCases HOST
 *
 * It prints "is " and the identity that an ACL with the scheme auth gets, and exits with status 0. Any error is a stack trace and
 * status 1.
 */
public final class KerberosCases {
    static final long PATIENCE = 60_000; // ms, for anything that must happen

    public static void main(String[] args) throws Exception {
        List<KeeperState> states = Collections.synchronizedList(new ArrayList<>());
        ZooKeeper zk = new ZooKeeper(args[0], 10_000, e -> states.add(e.getState()));
        long end = System.currentTimeMillis() + PATIENCE;
        while (!states.contains(KeeperState.SaslAuthenticated)) {
            if (System.currentTimeMillis() > end || states.contains(KeeperState.AuthFailed)) {
                throw new AssertionError("no login: " + states);
            }
            Thread.sleep(10);
        }
        String path = zk.create("/kerberos", new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.EPHEMERAL_SEQUENTIAL);
        StringBuilder is = new StringBuilder("is");
        for (ACL acl : zk.getACL(path, new Stat())) {
            if (!acl.getId().getScheme().equals("ip")) {
                is.append(" ").append(acl.getId().getScheme()).append(" ").append(acl.getId().getId());
            }
        }
        System.out.println(is);
        System.out.flush();
        zk.close();
        Runtime.getRuntime().halt(0);
    }
}
