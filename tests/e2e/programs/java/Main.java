import java.io.*;
import java.net.*;
import java.nio.channels.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

/** What a Java program does: threads, files by each interface, a mapped one, an archive, a child, a socket file. */
public class Main {
    public static void main(String[] arguments) throws Exception {
        System.out.println("arguments " + List.of(arguments));
        threads();
        files();
        archive();
        child();
        socketFile();
        System.out.println("missing " + reason(() -> Files.readString(Path.of("missing/file"))));
        System.exit(arguments.length);
    }

    static void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Integer>> results = new ArrayList<>();
        for (int n = 0; n < 100; ++n) {
            final int number = n;
            results.add(pool.submit(() -> {
                Path file = Files.createDirectories(Path.of("made", "by" + number % 10)).resolve("file" + number);
                Files.writeString(file, "x".repeat(number));
                return (int) Files.size(file);
            }));
        }
        int sum = 0;
        for (Future<Integer> result : results) sum += result.get();
        pool.shutdown();
        System.out.println("threads " + sum + " " + IntStream.range(0, 1000000).parallel().filter(n -> n % 7 == 0).count());
    }

    static void files() throws Exception {
        try (RandomAccessFile file = new RandomAccessFile("mapped", "rw"); FileChannel channel = file.getChannel();
             FileLock lock = channel.lock()) {
            java.nio.MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 8192);
            mapped.put(4096, (byte) 'm');
            mapped.force();
            System.out.println("mapped " + channel.size() + " " + lock.isValid());
        }
        Files.move(Path.of("mapped"), Path.of("moved"), StandardCopyOption.ATOMIC_MOVE);
        Files.copy(Path.of("moved"), Path.of("copied"), StandardCopyOption.COPY_ATTRIBUTES);
        Files.createSymbolicLink(Path.of("link"), Path.of("moved"));
        Files.setPosixFilePermissions(Path.of("copied"), Set.of(java.nio.file.attribute.PosixFilePermission.OWNER_READ));
        Files.delete(Path.of("moved"));
        Path temporary = Files.createTempFile("of-java", ".txt");
        System.out.println("temporary " + Files.writeString(temporary, "text").toFile().length());
        Files.delete(temporary);
        try (Stream<Path> walked = Files.walk(Path.of("made"))) {
            System.out.println("walked " + walked.count());
        }
    }

    static void archive() throws Exception {
        try (ZipOutputStream zip = new ZipOutputStream(new FileOutputStream("made.zip"))) {
            ZipEntry entry = new ZipEntry("numbers");
            entry.setTime(1000000000000L);
            zip.putNextEntry(entry);
            for (int n = 0; n < 1000; ++n) zip.write((n + "\n").getBytes());
        }
        try (ZipFile zip = new ZipFile("made.zip")) {
            System.out.println("archive " + new BufferedReader(new InputStreamReader(
                zip.getInputStream(zip.getEntry("numbers")))).lines().mapToInt(Integer::parseInt).sum());
        }
    }

    static void child() throws Exception {
        Process process = new ProcessBuilder("sort", "-r").redirectErrorStream(true).start();
        try (OutputStream input = process.getOutputStream()) { input.write("a\nc\nb\n".getBytes()); }
        System.out.println("child " + new String(process.getInputStream().readAllBytes()).replace('\n', ' ') + process.waitFor());
        System.out.println("no program " + (reason(() -> new ProcessBuilder("no-such-program").start()) != null));
    }

    static void socketFile() throws Exception {
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of("socket");
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(address);
            Thread answering = new Thread(() -> {
                try (SocketChannel one = server.accept()) {
                    one.write(java.nio.ByteBuffer.wrap("through a socket".getBytes()));
                } catch (IOException error) {
                    System.out.println(error);
                }
            });
            answering.start();
            try (SocketChannel client = SocketChannel.open(address)) {
                System.out.println(new String(Channels.newInputStream(client).readAllBytes(), StandardCharsets.UTF_8));
            }
            answering.join();
        }
        Files.delete(address.getPath());
    }

    interface Action { void run() throws Exception; }

    static String reason(Action action) {
        try {
            action.run();
            return null;
        } catch (Exception error) {
            return error.toString();
        }
    }
}
