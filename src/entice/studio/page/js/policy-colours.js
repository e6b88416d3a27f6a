// The colours of policies, the same on every screen.

/** The number of each policy's colour in the theme. */
export const SERIES = {
  ucb: 0,
  epsilon_greedy: 1,
  thompson_sampling: 2,
  drift_corrected_thompson: 3,
  greedy: 4,
};
