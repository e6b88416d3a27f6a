// The colours of policies, the same on every screen.

/** The number of each policy's colour in the theme. */
export const SERIES = {
  ucb: 0,
  epsilon_greedy: 1,
  thompson_sampling: 2,
  drift_corrected_thompson: 3,
  greedy: 4,
  equal_pay_elimination: 5,
  equal_pay: 6,
  moss: 7,
};
