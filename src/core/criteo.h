/* The columns of the Criteo display advertising format: what its parser finds and features name. */
#ifndef FTH_CORE_CRITEO_H
#define FTH_CORE_CRITEO_H

#define FTH_CRITEO_COLUMNS 40u

/* label, I1..I13, C1..C26 */
extern const char *const fth_criteo_columns[FTH_CRITEO_COLUMNS];

#endif
