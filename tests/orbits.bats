# Scans that are not the plain circle: what --show says of them, and mu, in 1/mm, against analytic phantoms.
load helper

# mean VOLUME BOX: of voxels in COLUMNS,ROWS,PAGES, as img-cat cuts them
mean() {
    img-cat --region "${2%,*}" --pages "${2##*,}" "$1" | img-info --value mean
}

@test "a detector wholly off the plane of the orbit: the volume is where its rays are" {
    ct-geom --sod 708 --sdd 1139 --detector 192x36 --pitch 2.12 --offset-v 56.6 --views 90 -o g.geom
    ok ct-geom --show g.geom
    [[ "$output" == *"z from -98.3069 to -50.8666 mm: the detector does not see the plane of the orbit"* ]]
    [[ "$output" == *"x 36 voxels of 1.31779 mm"*"centred on z = -74.5868 mm"* ]]
    echo '0 0 0 30 30 1000 0 0.02' >rod.txt
    ct-phantom -g g.geom --phantom rod.txt | ct-fdk -o v.tif
    [ "$(img-info --value origin v.tif | awk '{ printf "%.3f", $3 }')" = -97.648 ]
    for z in 1 18 34; do
        near "$(mean v.tif 90:100,90:100,$z)" 0.02 0.0002
    done
    # what is asked for is obeyed, and a detector that sees the plane has its volume about it
    ct-geom --show --offset-v 10 g.geom | grep -q '^volume .* x 56 voxels'
    [ "$(ct-phantom -g g.geom | ct-fdk --volume 8x8x4 --voxel 1 --center 0,0,0 | img-info --value origin)" = "-3.5 -3.5 -1.5" ]
}
