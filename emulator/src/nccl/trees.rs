//! The two binary trees that NCCL lays over hosts: each is inner where the other is leaf.

/// The host above `host` among `hosts`, and those below it.
pub(super) fn of(hosts: usize, host: usize, second: bool) -> (Option<usize>, Vec<usize>) {
    if !second {
        return first(hosts, host);
    }
    // Mirrored where the number is even, moved by one where it is odd.
    let there = |host: usize| if hosts.is_multiple_of(2) { hosts - 1 - host } else { (host + hosts - 1) % hosts };
    let back = |host: usize| if hosts.is_multiple_of(2) { hosts - 1 - host } else { (host + 1) % hosts };
    let (above, below) = first(hosts, there(host));
    (above.map(back), below.into_iter().map(back).collect())
}

fn first(hosts: usize, host: usize) -> (Option<usize>, Vec<usize>) {
    if host == 0 {
        let below = hosts.next_power_of_two() / 2;
        return (None, if hosts > 1 { vec![below] } else { Vec::new() });
    }
    let bit = host & host.wrapping_neg();
    let above = Some((host ^ bit) | bit << 1).filter(|above| *above < hosts).unwrap_or(host ^ bit);
    let mut half = bit / 2;
    if half == 0 {
        return (Some(above), Vec::new());
    }
    let mut below = vec![host - half];
    while half > 0 && host + half >= hosts {
        half /= 2;
    }
    below.extend((half > 0).then_some(host + half));
    (Some(above), below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_hangs_below_one_that_knows_it() {
        for hosts in 1..=33 {
            for second in [false, true] {
                let roots = (0..hosts).filter(|&host| of(hosts, host, second).0.is_none()).count();
                assert_eq!(roots, 1, "{hosts} hosts");
                for host in 0..hosts {
                    let (above, below) = of(hosts, host, second);
                    assert!(above.is_none_or(|above| of(hosts, above, second).1.contains(&host)), "{host} of {hosts}");
                    assert!(below.iter().all(|&below| of(hosts, below, second).0 == Some(host)), "{host} of {hosts}");
                    assert!(below.len() <= 2);
                }
            }
        }
    }

    #[test]
    fn four_hosts_hang_as_in_the_double_binary_tree() {
        let below = |second| (0..4).map(|host| of(4, host, second).1).collect::<Vec<_>>();
        assert_eq!(below(false), [vec![2], vec![], vec![1, 3], vec![]]);
        assert_eq!(below(true), [vec![], vec![2, 0], vec![], vec![1]]);
    }
}
