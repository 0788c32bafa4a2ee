//! The table of all models: their parameters, and where they come from.

use super::{Claims, Disk, DiskMechanism, DiskModel, Flash, Shingled, Volume};

const MIB: u64 = 1 << 20;
const GB: u64 = 1_000_000_000;

/// A disk of 7,200 rpm of the years from 2000, for what its successors have in common with it.
const CAVIAR: Disk = Disk {
    capacity_bytes: 40 * GB,
    rotations_per_minute: 7200,
    outer_bytes_per_second: 40_500_000,
    inner_bytes_per_second: 25_000_000,
    track_seek_ns: 2_000_000,
    average_seek_ns: 8_900_000,
    full_seek_ns: 21_000_000,
    command_ns: 300_000,
    interface_bytes_per_second: 100_000_000,
    segment_count: 8,
    segment_bytes: MIB / 4,
    stream_ahead_bytes: 0,
    write_through_from_bytes: u64::MAX,
    queue_depth: 1,
    shingled: None,
};
const CAVIAR_SPECIFICATION: &str = "Western Digital, specification of the Caviar WD400BB (2001)";
const CACHE_ASSUMED: &str = "assumed: usual for such a disk";
const NO_WRITE_THROUGH: &str = "off";
const NO_QUEUE: &str = "without command queuing, as usual then";

/// A disk of 7,200 rpm with command queuing, today.
const ULTRASTAR: Disk = Disk {
    capacity_bytes: 6_000 * GB,
    outer_bytes_per_second: 250_000_000,
    inner_bytes_per_second: 115_000_000,
    track_seek_ns: 230_000,
    average_seek_ns: 7_400_000,
    full_seek_ns: 15_000_000,
    command_ns: 50_000,
    interface_bytes_per_second: 550_000_000,
    segment_count: 32,
    segment_bytes: 4 * MIB,
    stream_ahead_bytes: MIB / 4,
    queue_depth: 32,
    ..CAVIAR
};
const ULTRASTAR_SPECIFICATION: &str = "Western Digital, specification of the Ultrastar DC HC310 (2018)";
const RATES_ASSUMED: &str = "assumed: as reviews of such disks show";
const SATA: &str = "SATA: of 6 Gbit/s, what is left for data; the depth of its queue";

const ROTATIONAL: Claims = Claims {
    rotational: true,
    read_ahead_kib: 128,
    logical_block_bytes: 512,
    write_cache_bytes: 2 * MIB,
};
const SOLID: Claims = Claims {
    rotational: false,
    ..ROTATIONAL
};

/// An SSD with a map of pages.
const SSD_SATA: Flash = Flash {
    capacity_bytes: 500 * GB,
    chip_count: 32,
    page_bytes: 16 << 10,
    page_read_ns: 75_000,
    page_program_ns: 1_750_000,
    fast_page_program_ns: 500_000,
    fast_bytes: 22 * GB,
    block_bytes: 64 * MIB,
    block_erase_ns: 5_000_000,
    spare_percent: 9,
    open_block_count: 0,
    stream_count: 8,
    read_command_ns: 17_000,
    write_command_ns: 16_000,
    read_bytes_per_second: 560_000_000,
    write_bytes_per_second: 530_000_000,
};
const CHIPS_ASSUMED: &str = "assumed: usual for such flash";
const NO_FAST_CELLS: &str = "it has no faster cells";

/// All models.
pub const MODELS: &[DiskModel] = &[
    DiskModel {
        name: "hdd-2003",
        about: "An IDE disk of 7,200 rpm, 40 MB/s, in an Athlon XP of 2003",
        mechanism: DiskMechanism::Disk(CAVIAR),
        claims: ROTATIONAL,
        sources: &[
            (
                "outer_bytes_per_second",
                "fitted to the 40 MB/s of the 2003 document; the specification says 50 at most",
            ),
            (
                "inner_bytes_per_second",
                "the specification's least, without the changes of tracks",
            ),
            (
                "capacity_bytes rotations_per_minute track_seek_ns average_seek_ns full_seek_ns command_ns \
                 interface_bytes_per_second write_cache_bytes",
                CAVIAR_SPECIFICATION,
            ),
            ("segment_count segment_bytes stream_ahead_bytes", CACHE_ASSUMED),
            ("write_through_from_bytes", NO_WRITE_THROUGH),
            ("queue_depth", NO_QUEUE),
        ],
    },
    DiskModel {
        name: "hdd-2008",
        about: "A Samsung disk of 7,200 rpm in a Vista machine of 2008",
        mechanism: DiskMechanism::Disk(Disk {
            capacity_bytes: 500 * GB,
            outer_bytes_per_second: 78_000_000,
            inner_bytes_per_second: 38_000_000,
            track_seek_ns: 800_000,
            full_seek_ns: 18_000_000,
            command_ns: 470_000,
            interface_bytes_per_second: 250_000_000,
            segment_count: 16,
            segment_bytes: MIB / 2,
            write_through_from_bytes: MIB / 2,
            ..CAVIAR
        }),
        claims: Claims {
            write_cache_bytes: 8 * MIB,
            ..ROTATIONAL
        },
        sources: &[
            (
                "capacity_bytes rotations_per_minute average_seek_ns",
                "Samsung SpinPoint T166, storagereview.com (2007); which Samsung disk it was is not known",
            ),
            (
                "inner_bytes_per_second track_seek_ns full_seek_ns interface_bytes_per_second",
                CACHE_ASSUMED,
            ),
            (
                "segment_count segment_bytes stream_ahead_bytes write_cache_bytes",
                CACHE_ASSUMED,
            ),
            (
                "command_ns",
                "fitted to both update columns: 10,000 writes from 0.415 to 0.558 ms, so not the platter's time",
            ),
            (
                "outer_bytes_per_second write_through_from_bytes",
                "fitted to the write columns: 4 writes of 1 MB take their time on the platter, and a turn each",
            ),
            ("queue_depth", NO_QUEUE),
        ],
    },
    DiskModel {
        name: "raptor-2008",
        about: "A WD Raptor of 10,000 rpm in a Vista machine of 2008",
        mechanism: DiskMechanism::Disk(Disk {
            capacity_bytes: 74 * GB,
            rotations_per_minute: 10_000,
            outer_bytes_per_second: 55_000_000,
            inner_bytes_per_second: 45_000_000,
            track_seek_ns: 600_000,
            average_seek_ns: 4_500_000,
            full_seek_ns: 10_200_000,
            command_ns: 145_000,
            interface_bytes_per_second: 150_000_000,
            segment_count: 16,
            segment_bytes: MIB / 2,
            write_through_from_bytes: MIB / 2,
            ..CAVIAR
        }),
        claims: Claims {
            write_cache_bytes: 8 * MIB,
            ..ROTATIONAL
        },
        sources: &[
            (
                "capacity_bytes rotations_per_minute average_seek_ns interface_bytes_per_second write_cache_bytes",
                "Western Digital Raptor WD740GD, techreport.com (2004); which Raptor it was is not known",
            ),
            ("inner_bytes_per_second track_seek_ns full_seek_ns", CACHE_ASSUMED),
            ("segment_count segment_bytes stream_ahead_bytes", CACHE_ASSUMED),
            ("command_ns", "fitted to both update columns: 0.17 ms a write"),
            (
                "outer_bytes_per_second write_through_from_bytes",
                "fitted to the write columns, as for hdd-2008; reviews say 72 MB/s for reading",
            ),
            ("queue_depth", NO_QUEUE),
        ],
    },
    DiskModel {
        name: "thumb-2008",
        about: "A thumb drive of 2008: no map of pages, so a write out of order copies a block",
        mechanism: DiskMechanism::Flash(Flash {
            capacity_bytes: 4 * GB,
            chip_count: 1,
            page_bytes: 4096,
            page_read_ns: 60_000,
            page_program_ns: 330_000,
            fast_page_program_ns: 330_000,
            fast_bytes: 0,
            block_bytes: 128 << 10,
            block_erase_ns: 1_500_000,
            spare_percent: 3,
            open_block_count: 1,
            stream_count: 1,
            read_command_ns: 500_000,
            write_command_ns: 730_000,
            read_bytes_per_second: 25_000_000,
            write_bytes_per_second: 30_000_000,
        }),
        claims: Claims {
            write_cache_bytes: 0,
            ..SOLID
        },
        sources: &[
            (
                "page_program_ns",
                "fitted to both write columns: 12 MB/s; they differ by a third, the model is between them",
            ),
            ("write_command_ns", "fitted to the sparse column: 1.07 ms a page"),
            (
                "block_bytes block_erase_ns page_read_ns open_block_count",
                "fitted to the random column: 14 ms a page",
            ),
            (
                "capacity_bytes chip_count page_bytes spare_percent stream_count write_cache_bytes",
                CHIPS_ASSUMED,
            ),
            ("fast_bytes fast_page_program_ns", NO_FAST_CELLS),
            (
                "read_command_ns read_bytes_per_second write_bytes_per_second",
                "assumed: USB 2.0",
            ),
        ],
    },
    DiskModel {
        name: "ssd-2008",
        about: "A Memoright SSD in a Vista laptop of 2008",
        mechanism: DiskMechanism::Flash(Flash {
            capacity_bytes: 32 * GB,
            chip_count: 8,
            page_bytes: 4096,
            page_read_ns: 60_000,
            page_program_ns: 270_000,
            fast_page_program_ns: 270_000,
            fast_bytes: 0,
            block_bytes: 4 * MIB,
            block_erase_ns: 1_500_000,
            spare_percent: 7,
            open_block_count: 0,
            stream_count: 1,
            read_command_ns: 60_000,
            write_command_ns: 110_000,
            read_bytes_per_second: 110_000_000,
            write_bytes_per_second: 35_000_000,
        }),
        claims: Claims {
            write_cache_bytes: 16 * MIB,
            ..SOLID
        },
        sources: &[
            ("write_command_ns", "fitted to both update columns: 0.23 ms a page"),
            (
                "write_bytes_per_second",
                "fitted to the column of overwriting: 34 MB/s, with all that Vista does",
            ),
            (
                "page_program_ns",
                "assumed: 120 MB/s on all chips, as the drive was sold",
            ),
            (
                "capacity_bytes chip_count page_bytes page_read_ns block_bytes block_erase_ns spare_percent",
                CHIPS_ASSUMED,
            ),
            (
                "open_block_count stream_count read_command_ns read_bytes_per_second write_cache_bytes",
                CHIPS_ASSUMED,
            ),
            ("fast_bytes fast_page_program_ns", NO_FAST_CELLS),
        ],
    },
    DiskModel {
        name: "hdd-2009",
        about: "The SATA disk of the 2009 document on cache pre-loading, in a Pentium 4",
        mechanism: DiskMechanism::Disk(Disk {
            capacity_bytes: 80 * GB,
            outer_bytes_per_second: 32_600_000,
            inner_bytes_per_second: 20_000_000,
            interface_bytes_per_second: 130_000_000,
            segment_count: 16,
            segment_bytes: MIB / 2,
            ..CAVIAR
        }),
        claims: Claims {
            write_cache_bytes: 8 * MIB,
            ..ROTATIONAL
        },
        sources: &[
            (
                "outer_bytes_per_second",
                "fitted to block-compare-100M: 200 MB in 6.19 s",
            ),
            (
                "rotations_per_minute track_seek_ns average_seek_ns full_seek_ns command_ns",
                "assumed: the disk is not named; an older one, by its rate. Western Digital, specification of the WD400BB (2001)",
            ),
            (
                "capacity_bytes inner_bytes_per_second interface_bytes_per_second write_cache_bytes",
                CACHE_ASSUMED,
            ),
            ("segment_count segment_bytes stream_ahead_bytes", CACHE_ASSUMED),
            ("write_through_from_bytes", NO_WRITE_THROUGH),
            ("queue_depth", NO_QUEUE),
        ],
    },
    DiskModel {
        name: "hdd-2016",
        about: "The HGST Ultrastar 7K4000 of the addendum of 2016",
        mechanism: DiskMechanism::Disk(Disk {
            capacity_bytes: 4_000 * GB,
            outer_bytes_per_second: 139_000_000,
            inner_bytes_per_second: 75_000_000,
            track_seek_ns: 600_000,
            average_seek_ns: 8_200_000,
            full_seek_ns: 16_000_000,
            ..ULTRASTAR
        }),
        claims: Claims {
            write_cache_bytes: 32 * MIB,
            ..ROTATIONAL
        },
        sources: &[
            (
                "rotations_per_minute average_seek_ns",
                "HGST, specification of the Ultrastar 7K4000 (2016)",
            ),
            ("capacity_bytes", "HGST, the largest of the series"),
            (
                "outer_bytes_per_second",
                "fitted to block-compare-with-extra-read: 200 MB in 1.45 s",
            ),
            (
                "stream_ahead_bytes",
                "fitted to block-compare-4k: 1.4 s for 1,526 changes of the file, too little for a seek each",
            ),
            (
                "inner_bytes_per_second track_seek_ns full_seek_ns command_ns",
                CACHE_ASSUMED,
            ),
            ("segment_count segment_bytes write_cache_bytes", CACHE_ASSUMED),
            ("write_through_from_bytes", NO_WRITE_THROUGH),
            ("interface_bytes_per_second queue_depth", SATA),
        ],
    },
    DiskModel {
        name: "ssd-2016",
        about: "The Samsung 950 Pro of the addendum of 2016; the device's own time is above that of NVMe",
        mechanism: DiskMechanism::Flash(Flash {
            capacity_bytes: 512 * GB,
            page_read_ns: 62_000,
            page_program_ns: 345_000,
            fast_page_program_ns: 345_000,
            fast_bytes: 0,
            read_command_ns: 18_000,
            write_command_ns: 20_000,
            read_bytes_per_second: 2_133_000_000,
            write_bytes_per_second: 1_500_000_000,
            ..SSD_SATA
        }),
        claims: Claims {
            write_cache_bytes: 64 * MIB,
            ..SOLID
        },
        sources: &[
            (
                "capacity_bytes write_bytes_per_second",
                "Samsung, specification of the 950 Pro, ubergizmo.com (2015)",
            ),
            (
                "read_bytes_per_second",
                "measured by cdrinfo.com (2015); its specification says 2.5 GB/s",
            ),
            (
                "page_read_ns read_command_ns",
                "fitted to its specification: 12,000 reads of 4K per second, one at a time",
            ),
            (
                "write_command_ns",
                "fitted to its specification: 43,000 writes of 4K per second, one at a time",
            ),
            (
                "page_program_ns",
                "fitted to its specification: 1.5 GB/s, also when much is written",
            ),
            (
                "chip_count page_bytes block_bytes block_erase_ns spare_percent open_block_count",
                CHIPS_ASSUMED,
            ),
            ("stream_count write_cache_bytes", CHIPS_ASSUMED),
            ("fast_bytes fast_page_program_ns", NO_FAST_CELLS),
        ],
    },
    DiskModel {
        name: "hdd-nas",
        about: "A disk of 7,200 rpm and 6 TB, as in today's servers and network storage",
        mechanism: DiskMechanism::Disk(ULTRASTAR),
        claims: Claims {
            logical_block_bytes: 512,
            write_cache_bytes: 64 * MIB,
            ..ROTATIONAL
        },
        sources: &[
            (
                "rotations_per_minute track_seek_ns average_seek_ns",
                ULTRASTAR_SPECIFICATION,
            ),
            ("capacity_bytes", ULTRASTAR_SPECIFICATION),
            ("outer_bytes_per_second inner_bytes_per_second", RATES_ASSUMED),
            (
                "full_seek_ns command_ns segment_count segment_bytes write_cache_bytes",
                CACHE_ASSUMED,
            ),
            ("stream_ahead_bytes", "as fitted for hdd-2016"),
            ("write_through_from_bytes", NO_WRITE_THROUGH),
            ("interface_bytes_per_second queue_depth", SATA),
        ],
    },
    DiskModel {
        name: "hdd-smr",
        about: "An archive disk of 8 TB with shingled tracks, of which the host knows nothing",
        mechanism: DiskMechanism::Disk(Disk {
            capacity_bytes: 8_000 * GB,
            rotations_per_minute: 5900,
            outer_bytes_per_second: 190_000_000,
            inner_bytes_per_second: 90_000_000,
            track_seek_ns: 1_000_000,
            average_seek_ns: 12_000_000,
            full_seek_ns: 24_000_000,
            shingled: Some(Shingled {
                shingled_zone_bytes: 30 * MIB,
                disk_cache_bytes: 20 * GB,
                idle_before_rewrite_ns: 1_000_000_000,
            }),
            ..ULTRASTAR
        }),
        claims: Claims {
            write_cache_bytes: 64 * MIB,
            ..ROTATIONAL
        },
        sources: &[
            (
                "disk_cache_bytes",
                "Seagate Archive HDD of 8 TB, hardwareslave.com (2015)",
            ),
            (
                "shingled_zone_bytes idle_before_rewrite_ns",
                "assumed, after Aghayev and Desnoyers, Skylight (FAST 2015), who measured zones of 15 to 40 MiB",
            ),
            (
                "capacity_bytes rotations_per_minute track_seek_ns average_seek_ns full_seek_ns",
                RATES_ASSUMED,
            ),
            ("outer_bytes_per_second inner_bytes_per_second", RATES_ASSUMED),
            (
                "command_ns segment_count segment_bytes write_cache_bytes",
                CACHE_ASSUMED,
            ),
            ("stream_ahead_bytes", "as fitted for hdd-2016"),
            ("write_through_from_bytes", NO_WRITE_THROUGH),
            ("interface_bytes_per_second queue_depth", SATA),
        ],
    },
    DiskModel {
        name: "ssd-sata",
        about: "A SATA SSD of 500 GB with three bits a cell, whose fast cells run full",
        mechanism: DiskMechanism::Flash(SSD_SATA),
        claims: Claims {
            write_cache_bytes: 32 * MIB,
            ..SOLID
        },
        sources: &[
            (
                "capacity_bytes read_bytes_per_second write_bytes_per_second",
                "Samsung 860 EVO of 500 GB: 550 and 520 MB/s, techplayboy.com (2018)",
            ),
            (
                "page_read_ns read_command_ns",
                "fitted to 10,000 reads of 4K per second, one at a time (850 EVO, wired2fire.co.uk)",
            ),
            (
                "write_command_ns",
                "fitted to 40,000 writes of 4K per second, one at a time (850 EVO, wired2fire.co.uk)",
            ),
            (
                "fast_bytes fast_page_program_ns",
                "assumed, after the 860 EVO: 22 GB that are programmed faster than SATA brings them",
            ),
            (
                "page_program_ns",
                "assumed, after the 860 EVO: 300 MB/s when the fast cells are full",
            ),
            (
                "chip_count page_bytes block_bytes block_erase_ns spare_percent open_block_count",
                CHIPS_ASSUMED,
            ),
            ("stream_count write_cache_bytes", CHIPS_ASSUMED),
        ],
    },
    DiskModel {
        name: "cloud-burst",
        about: "A general-purpose cloud volume of 100 GiB with credits for bursts",
        mechanism: DiskMechanism::Volume(Volume {
            latency_ns: 800_000,
            base_iops: 300,
            burst_iops: 3_000,
            credits_max: 5_400_000,
            counted_bytes: MIB / 4,
            bytes_per_second: 128 * MIB,
        }),
        claims: Claims {
            write_cache_bytes: 0,
            ..SOLID
        },
        sources: &[
            (
                "base_iops burst_iops credits_max",
                "Amazon EBS gp2, user guide: 3 IOPS per GiB, bursts of 3,000, 5.4 million credits at first",
            ),
            (
                "counted_bytes bytes_per_second",
                "assumed, after gp2 of this size: 128 MiB/s, requests counted in 256 KiB",
            ),
            (
                "latency_ns write_cache_bytes",
                "assumed: below a millisecond, and durable when complete",
            ),
        ],
    },
    DiskModel {
        name: "null",
        about: "No delay at all: what the simulator itself costs",
        mechanism: DiskMechanism::Null,
        claims: Claims {
            write_cache_bytes: 64 * MIB,
            ..SOLID
        },
        sources: &[("write_cache_bytes", "what a power cut may lose at most")],
    },
];
