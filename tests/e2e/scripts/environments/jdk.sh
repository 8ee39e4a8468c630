jlink --add-modules java.base,jdk.compiler,jdk.jartool --no-man-pages --output new && mv new/* . \
    && rmdir new
