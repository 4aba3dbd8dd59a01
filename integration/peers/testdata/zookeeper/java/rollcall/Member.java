package rollcall;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A process of rollcall serve, in place of a server that ZooKeeper's tests start in their own process. */
public final class Member {

    private static final long START_MILLIS = 20_000; // a start takes less than 1 s; a busy machine may need longer

    private final File config;
    private Process process;

    /**
     * Writes the configuration of a member below dir, where it keeps its data, too. A later Member with the same dir
     * continues with these data.
     */
    public Member(File dir, long id, List<String> lines) throws IOException {
        File data = new File(dir, "member");
        Files.createDirectories(data.toPath());
        Files.writeString(new File(data, "myid").toPath(), Long.toString(id));
        config = new File(dir, "member.cfg");
        Files.writeString(config.toPath(), "dataDir=" + data.getAbsolutePath() + "\n" + String.join("\n", lines) + "\n");
    }

    /** A member with a configuration that exists. */
    public Member(File config) {
        this.config = config;
    }

    /** Starts the process, with the properties of this one that concern a server. */
    public synchronized void start() throws IOException {
        ProcessBuilder builder = new ProcessBuilder(System.getenv("ROLLCALL"), "serve", config.getPath());
        builder.environment().put("SERVER_JVMFLAGS", flags());
        File log = new File(System.getenv("MEMBERS_LOG"));
        process = builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    }

    /** Waits until the port accepts connections. */
    public void awaitPort(int port) throws IOException, InterruptedException {
        for (long end = System.currentTimeMillis() + START_MILLIS;; Thread.sleep(20)) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress("127.0.0.1", port));
                return;
            } catch (IOException e) {
                if (!process.isAlive() || System.currentTimeMillis() > end) {
                    throw new IOException("rollcall serve " + config + " does not listen at port " + port, e);
                }
            }
        }
    }

    /** Ends the process as a signal of the system does, and waits for its end. */
    public synchronized void stop() throws InterruptedException {
        if (process != null) {
            process.destroy();
            process.waitFor();
        }
    }

    /** Waits until the process has ended, and reports whether it was stopped and did not fail. */
    public boolean join() throws InterruptedException {
        return process.waitFor() == 0;
    }

    private static String flags() {
        StringBuilder flags = new StringBuilder();
        Map<Object, Object> properties = new TreeMap<>(System.getProperties());
        properties.forEach((name, value) -> {
            String key = name.toString();
            if (key.startsWith("zookeeper.") || key.equals("readonlymode.enabled") || key.equals("jute.maxbuffer")
                || key.equals("java.security.auth.login.config")) {
                flags.append(" -D").append(key).append('=').append(value);
            }
        });
        return flags.toString();
    }

}
