# SPDX-License-Identifier: MIT
# ImageMagick: a picture of 1600 by 1200 is scaled, sharpened, rotated, and stored in three formats,
# and twelve pictures become one of thumbnails. Its pixels lie in blocks of megabytes.
# serves: convert magick
. "$PROGRAMS/lib.sh"

# Version 7 calls it magick.
tool=
for name in convert-im6.q16 /usr/bin/convert magick; do
    [ -n "$tool" ] || tool=$(command -v $name || true)
done
[ -n "$tool" ] || skip "no ImageMagick here"

prepare() {
    "$tool" -size 1600x1200 -seed 7 plasma:red-blue -attenuate 0.4 +noise Gaussian picture.ppm
    for i in $(seq 12); do
        "$tool" picture.ppm -crop "$((300 + 40 * i))x$((200 + 30 * i))+$((20 * i))+$((10 * i))" \
            +repage -quality 90 "small-$i.jpg"
    done
}

run() {
    rm -f out.*
    under "$tool" picture.ppm -resize 70% -unsharp 0x1 -rotate 3 -write out.png -resize 50% \
        -quality 85 -write out.jpg -colors 64 out.gif
    under "$tool" small-*.jpg -resize 160x120 -modulate 110 -append out.ppm
    # The height of twelve thumbnails of 4 to 3 stands in the second line.
    [ -s out.png ] && [ -s out.jpg ] && [ -s out.gif ]
    [ "$(sed -n 2p out.ppm | cut -d ' ' -f 1)" = 160 ]
}

"$1"
