# SPDX-License-Identifier: MIT
# Ghostscript renders six pages of text, curves and an image, made by a PostScript program.
# needs: gs
# serves: gs
. "$PROGRAMS/lib.sh"

prepare() {
    cat >pages.ps <<'END'
%!PS
/page {
  /n exch def
  /Times-Roman findfont 9 scalefont setfont
  0 1 60 { /i exch def 40 780 i 12 mul sub moveto
    (Line ) show i 10 string cvs show
    ( of a page of text that is long enough to fill most of the width of the paper ) show
    n 10 string cvs show } for
  0 1 400 { /i exch def newpath
    i 7 mul 600 mod i 13 mul 800 mod moveto
    i 11 mul 600 mod i 3 mul 800 mod i 5 mul 600 mod i 17 mul 800 mod
    i 19 mul 600 mod i 23 mul 800 mod curveto
    i 10 mod 10 div i 7 mod 7 div i 3 mod 3 div setrgbcolor
    i 3 mod 0 eq { fill } { stroke } ifelse } for
  gsave 100 100 translate 400 400 scale
  64 64 8 [64 0 0 64 0 0] { 64 string 0 1 63 { 1 index exch dup n mul 255 and put } for } image
  grestore
  showpage } def
1 1 6 { page } for
END
}

run() {
    under gs -q -dSAFER -dBATCH -dNOPAUSE -sDEVICE=png16m -r100 -sOutputFile=out.png pages.ps
    under gs -q -dSAFER -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=out.pdf pages.ps
}

"$1"
