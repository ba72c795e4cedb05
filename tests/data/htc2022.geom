# Helsinki Tomography Challenge 2022: central detector row of a flat-panel cone-beam scan.
beam = cone
sod = 410.66
sdd = 553.74
detector = 560x1
pitch = 0.2
# the source turns clockwise seen from +z; the last view repeats the first
direction = clockwise
angles = 0:0.5:721
