package org.culvert;

import java.util.Map;

/**
 * What is mounted.
 *
 * @param source an absolute path where the source names a file that is there, else as the user wrote
 *     it
 * @param target an absolute path
 * @param options the mount's options; those without a value have ""
 * @param readOnly whether nothing may be changed
 */
public record Mount(String source, String target, Map<String, String> options, boolean readOnly) {
}
