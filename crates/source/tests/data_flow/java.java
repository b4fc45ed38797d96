public static int find(int[] values, int wanted) {
    int best = -1, n;
    /* look */
    for (int i = 0; i < values.length; i++) {
        if (values[i] == wanted) {
            best = i;
        } else if (best > 0) {
            best = best - 1;
        } else {
            n = 2;
        }
    }
    for (String name : names) {
        System.out.println("name " + name);
        count = count + name.length();
    }
    while (best < 10) { best++; }
    return best;
}
