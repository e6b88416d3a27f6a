// The colour of a policy: by its kind, so that it is the same on every screen.

/** Which of the theme's colours each kind has. */
export const SERIES = {
  ucb: 0,
  epsilon_greedy: 1,
  thompson_sampling: 2,
  drift_corrected_thompson: 3,
  greedy: 4,
};
