package org.apache.zookeeper.server.quorum;

import java.io.File;
import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import javax.security.sasl.SaslException;
import org.apache.zookeeper.server.admin.AdminServer.AdminServerException;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;
import rollcall.Member;

/** Takes the place of ZooKeeper's class of this name, and runs a member with the configuration that a test wrote. */
public class QuorumPeerMain {

    private static final String NUMBER = "250"; // in place of 0, which no member can have

    protected QuorumPeer quorumPeer;

    protected void initializeAndRun(String[] args) throws ConfigException, IOException, AdminServerException {
        File config = new File(args[0]);
        Properties properties = new Properties();
        try (Reader reader = new FileReader(config)) {
            properties.load(reader);
        }
        replaceZero(config.toPath());
        if (properties.containsKey("dynamicConfigFile")) {
            replaceZero(Path.of(properties.getProperty("dynamicConfigFile")));
        }
        Path id = Path.of(properties.getProperty("dataDir"), "myid");
        if (Files.exists(id) && Files.readString(id).strip().equals("0")) {
            Files.writeString(id, NUMBER);
        }
        Member member = new Member(config);
        quorumPeer = new MemberPeer(member, Integer.parseInt(properties.getProperty("clientPort", "0")));
        quorumPeer.start();
        try {
            if (!member.join()) {
                throw new ConfigException("rollcall serve " + config + " does not start");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    public void runFromConfig(QuorumPeerConfig config) throws IOException, AdminServerException {
        throw new UnsupportedOperationException("a member has its configuration in a file");
    }

    protected QuorumPeer getQuorumPeer() throws SaslException {
        throw new UnsupportedOperationException("a member is a process");
    }

    private static void replaceZero(Path file) throws IOException {
        Files.writeString(file, Files.readString(file).replace("server.0=", "server." + NUMBER + "="));
    }

}
