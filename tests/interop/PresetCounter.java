// Sets the counter from which the children of a node get their numbers, in the data of a server that does not run.
//
//   java -cp /usr/share/java/zookeeper.jar PresetCounter.java FOLDER PATH NUMBER

import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

public class PresetCounter {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        FileTxnSnapLog log = new FileTxnSnapLog(folder, folder);
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        log.restore(tree, sessions, (header, record, digest) -> {});
        tree.getNode(arguments[1]).stat.setCversion(Integer.parseInt(arguments[2]));
        log.save(tree, sessions, true);
        log.close();
    }
}
