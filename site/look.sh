#!/usr/bin/env bash
# look.sh PAGE...: pictures of pages of build/site/html, in build/site/look: light and dark, 1400 and 400 columns wide. Needs
# chromium (Debian's package). A page is like docs/promise; HEIGHT=1600 is that of a picture.
set -euo pipefail
cd "$(dirname "$0")/../build/site"
mkdir -p look
for page; do
    for theme in light dark; do
        # Furo keeps the reader's choice in the browser: here the page itself has it. Chromium's window is 500 columns at least.
        sed "s/localStorage.getItem(\"theme\")/\"$theme\"/" "html/$page.html" >"html/$page-$theme.html"
        for width in 1400 400; do
            printf "<body style='margin: 0'><iframe src='%s' width=%s height=%s frameborder=0>" \
                "../html/$page-$theme.html" $width "${HEIGHT:-1600}" >look/frame.html
            chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=$width,"${HEIGHT:-1600}" \
                --screenshot="look/${page//\//-}-$theme-$width.png" "file://$PWD/look/frame.html" >/dev/null 2>&1
        done
        rm "html/$page-$theme.html"
    done
done
