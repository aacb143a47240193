// Curator's InterProcessMutex, as a program: says "ready", and does what the lines on its input say, until they end.
//
//   CuratorMutex HOSTS PATH TTL              "lock" is answered with "locked CZXID", "release" with "released"
//   CuratorMutex HOSTS PATH TTL COUNT FILE   at a line, so many locks in a row, and under each a file that nobody else may have made

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class CuratorMutex {
    /** Tells where its node is. */
    static class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int ttl = 1000 * Integer.parseInt(arguments[2]);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], ttl, ttl, new ExponentialBackoffRetry(50, 10));
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Mutex mutex = new Mutex(client, arguments[1]);
        if (arguments.length > 3) {
            input.readLine();
            cycle(mutex, Integer.parseInt(arguments[3]), Path.of(arguments[4]));
        } else {
            obey(client, mutex, input);
        }
        client.close();
    }

    static void obey(CuratorFramework client, Mutex mutex, BufferedReader input) throws Exception {
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("lock")) {
                mutex.acquire();
                System.out.println("locked " + client.checkExists().forPath(mutex.node()).getCzxid());
            } else {
                mutex.release();
                System.out.println("released");
            }
        }
    }

    static void cycle(Mutex mutex, int count, Path file) throws Exception {
        for (; count > 0; count--) {
            mutex.acquire();
            Files.createFile(file);
            Files.delete(file);
            mutex.release();
        }
        System.out.println("done");
    }
}
