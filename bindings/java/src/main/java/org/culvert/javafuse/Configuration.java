package org.culvert.javafuse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * JavaFuse's configuration: a key and a value on each line, separated by spaces. Comments are lines
 * that begin with #, and what stands between slash-star and star-slash.
 */
public final class Configuration {
    /** CLASSNAME: the class, its parts separated by slashes or dots; null: not given. */
    public String className;
    /** CLASSPATH: jars and directories, separated by colons; null: not given. */
    public String classPath;
    /** DEBUG: each call is told on standard error. */
    public boolean debug;
    /** META_DATA_ONLY: hooks of read and write do not see the bytes. */
    public boolean metaDataOnly;
    /** PRE_CALL: methods before the call are called. */
    public boolean preCall = true;
    /** POST_CALL: methods behind the call are called. */
    public boolean postCall = true;
    /** SYS_CALL: the call itself is made; without it the result is that of the method before it. */
    public boolean sysCall = true;

    /** What holds where nothing is said. */
    public Configuration() {
    }

    /**
     * Reads a file.
     *
     * @param file the file
     * @return what it says
     * @throws IOException it cannot be read
     * @throws IllegalArgumentException a line is no configuration
     */
    public static Configuration read(Path file) throws IOException {
        return of(Files.readAllLines(file));
    }

    static Configuration of(List<String> lines) {
        Configuration found = new Configuration();
        boolean comment = false;
        for (String line : lines) {
            String text = line.strip();
            if (comment || text.startsWith("/*")) {
                comment = !text.contains("*/");
                continue;
            }
            if (text.isEmpty() || text.startsWith("#")) {
                continue;
            }
            String[] words = text.split("\\s+", 2);
            String value = words.length == 2 ? words[1] : "";
            switch (words[0]) {
                case "CLASSNAME" -> found.className = value;
                case "CLASSPATH" -> found.classPath = value;
                case "DEBUG" -> found.debug = flag(text, value);
                case "META_DATA_ONLY" -> found.metaDataOnly = flag(text, value);
                case "PRE_CALL" -> found.preCall = flag(text, value);
                case "POST_CALL" -> found.postCall = flag(text, value);
                case "SYS_CALL" -> found.sysCall = flag(text, value);
                default -> throw new IllegalArgumentException("no such setting: " + text);
            }
        }
        return found;
    }

    private static boolean flag(String line, String value) {
        return switch (value) {
            case "0" -> false;
            case "1" -> true;
            default -> throw new IllegalArgumentException("neither 0 nor 1: " + line);
        };
    }
}
