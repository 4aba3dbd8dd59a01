import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import javax.security.auth.login.Configuration;

import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Logins by SASL with ZooKeeper's own Java client, on a server with the users of sasl_test.go.
 *
 * usage: SaslCases OPEN REQUIRED
 *
 * OPEN is a server on which clients may log in, and REQUIRED one on which they must. It prints "ok" and
 * exits with status 0. Any error is a stack trace and status 1.
 */
public final class SaslCases {
    static final long PATIENCE = 60_000; // ms, for anything that must happen

    static final Map<String, Map<String, String>> USERS = Map.of(
        "bob", Map.of("username", "bob", "password", "bob's \"secret\""),
        "carol", Map.of("username", "carol", "password", "carolsecret"),
        "wrong", Map.of("username", "bob", "password", "wrong"));

    /** A JAAS file with a section for each of USERS. */
    static final class Jaas extends Configuration {
        @Override
        public AppConfigurationEntry[] getAppConfigurationEntry(String section) {
            Map<String, String> user = USERS.get(section);
            if (user == null) {
                return null;
            }
            return new AppConfigurationEntry[] {new AppConfigurationEntry(
                "org.apache.zookeeper.server.auth.DigestLoginModule", LoginModuleControlFlag.REQUIRED, user)};
        }
    }

    final ZooKeeper zk;
    final List<KeeperState> states = Collections.synchronizedList(new ArrayList<>());

    /** Connects, and logs in with a section of the JAAS file if one is given. */
    SaslCases(String host, String section) throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, String.valueOf(section != null));
        if (section != null) {
            config.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, section);
        }
        zk = new ZooKeeper(host, 10_000, e -> states.add(e.getState()), config);
    }

    void await(KeeperState state) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE;
        while (!states.contains(state)) {
            check(System.currentTimeMillis() < end, "no " + state + ": " + states);
            Thread.sleep(10);
        }
    }

    static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static List<ACL> all(String scheme, String id) {
        return Collections.singletonList(new ACL(ZooDefs.Perms.ALL, new Id(scheme, id))); // List.of refuses to look for null
    }

    static void create(SaslCases c, String path, List<ACL> acl) throws Exception {
        c.zk.create(path, new byte[0], acl, CreateMode.PERSISTENT);
        check(c.zk.getACL(path, new Stat()).equals(all("sasl", "bob")), path + " has " + c.zk.getACL(path, new Stat()));
    }

    public static void main(String[] hosts) throws Exception {
        Configuration.setConfiguration(new Jaas());
        String open = hosts[0], required = hosts[1];

        SaslCases bob = new SaslCases(open, "bob");
        bob.await(KeeperState.SaslAuthenticated);
        create(bob, "/java", all("sasl", "bob"));
        create(bob, "/java/auth", all("auth", ""));
        SaslCases stranger = new SaslCases(open, null);
        try {
            stranger.zk.getData("/java", false, null);
            check(false, "a stranger reads bob's node");
        } catch (KeeperException.NoAuthException expected) {
            // as it should be
        }
        SaslCases carol = new SaslCases(open, "carol"); // the super user
        carol.zk.getData("/java", false, null);

        bob = new SaslCases(required, "bob");
        create(bob, "/java", all("sasl", "bob"));
        stranger = new SaslCases(required, null);
        try {
            stranger.zk.getData("/", false, null);
            check(false, "a stranger is served");
        } catch (KeeperException e) {
            check(e.code() == KeeperException.Code.SESSIONCLOSEDREQUIRESASLAUTH, e.toString());
        }

        for (String host : hosts) {
            SaslCases wrong = new SaslCases(host, "wrong");
            wrong.await(KeeperState.AuthFailed);
            check(!wrong.states.contains(KeeperState.SaslAuthenticated), "a wrong password is in");
        }
        System.out.println("ok");
        System.out.flush();
        Runtime.getRuntime().halt(0); // without closing: clients that have failed wait
    }
}
