L0:
(W)     mov (16|M0)              r127.0<1>:ud  0x0:ud
(W)     and (1|M0)               r127.2<1>:ud  r0.0<0;1,0>:ud    0xFFFFFFC0:ud
(W)     and (1|M0)               r127.0<1>:uw  r0.4<0;1,0>:uw    0xFF:uw
(W)     add (1|M0)               r127.2<1>:ud  r127.2<0;1,0>:ud  0x40:ud              {I@2}
(W)     add (1|M0)               r127.2<1>:ud  r127.2<0;1,0>:ud  0x0:ud              {I@1}
(W)     mad (1|M0)               r127.0<1>:ud  r127.2<0;0>:ud    r127.0<0;0>:uw    0x80:uw              {I@1}
(W)     mov (8|M0)               r3.0<1>:ud    r1.0<1;1,0>:ud
(W)     send.ugm (1|M0)          r1       r127  null:0  0xFF000000            0x6229E500           {A@1,$0} // wr:1+0, rd:2; load.ugm.d32x32t.a32.ca.cc.bti[255]
(W)     and (1|M0)               r127.0<1>:ud  r0.0<0;1,0>:ud    0xFFFFFFC0:ud              {$0.src}
(W)     add (1|M0)               r127.0<1>:ud  r127.0<0;1,0>:ud  0x0:ud              {I@1}
(W)     send.ugm (1|M0)          r4       r127  null:0  0xFF000000            0x6219D500           {I@1,$1} // wr:1+0, rd:1; load.ugm.d32x16t.a32.ca.cc.bti[255]
(W)     mov (16|M0)              r33.0<1>:ud   r0.0<1;1,0>:ud
(W)     or (1|M0)                cr0.0<1>:ud   cr0.0<0;1,0>:ud   0x400004C0:ud              {A@1}
(W)     cmp (16|M0)   (lt)f1.0   null<1>:d     r4.4<0;1,0>:d     0:w               {A@1,$1.dst}
(W)     mov (8|M0)               r126.0<1>:w   0x76543210:v
(W)     add (8|M0)               r126.8<1>:w   r126.0<1;1,0>:w   8:w               {I@1}
(W&~f1.0) jmpi                               L288
L272:
(W)     add (1|M0)               r4.4<1>:d     r4.4<0;1,0>:d     255:w
L288:
(W)     asr (1|M0)               r4.2<1>:d     r4.4<0;1,0>:d     8:w               {I@1}
        mov (16|M0)              r125.0<1>:d   r2.0<1;1,0>:uw                   {$0.dst}
        cmp (16|M0)   (gt)f0.1   null<1>:d     r4.2<0;1,0>:d     r125.0<1;1,0>:d  {I@1}
(f0.1)  goto (16|M0)                         L432                  L432
L352:
        mov (16|M0)              r41.0<1>:ud   0x0:ud                              {Compacted}
        mov (16|M0)              r124.0<1>:ud  0x0:ud                              {Compacted}
        mov (16|M0)              r83.0<1>:ud   0x0:ud                              {Compacted}
        mov (16|M0)              r123.0<1>:ud  0x0:ud                              {Compacted}
        mov (16|M0)              r84.0<1>:f    0.0:f                               {Compacted}
        mov (16|M0)              r122.0<1>:f   0.0:f                               {Compacted}
        mov (16|M0)              r85.0<1>:f    0.0:f                               {Compacted}
        mov (16|M0)              r121.0<1>:f   0.0:f                               {Compacted}
        goto (16|M0)                         L432                  L3296
L432:
        join (16|M0)                         L3296
L448:
(W)     asr (1|M0)               r2.8<1>:d     r4.2<0;1,0>:d     31:w
(W)     mul (1|M0)               acc0.0<1>:ud  r33.1<0;1,0>:ud   r4.4<0;1,0>:uw
(W)     macl (1|M0)              r35.0<1>:ud   r33.1<0;1,0>:ud   r4.2<0;1,0>:ud   {Compacted}
(W)     mul (1|M0)               acc0.0<1>:ud  r33.1<0;1,0>:ud   r4.4<0;1,0>:uw
(W)     asr (1|M0)               r1.0<1>:d     r33.1<0;1,0>:d    31:w               {Compacted}
(W)     mach (1|M0)              r5.0<1>:d     r33.1<0;1,0>:ud   r4.2<0;1,0>:ud
(W)     mul (1|M0)               acc0.0<1>:d   r33.1<0;1,0>:ud   r2.16<0;1,0>:uw  {I@6}
(W)     macl (1|M0)              r6.0<1>:d     r33.1<0;1,0>:ud   r2.8<0;1,0>:d
(W)     mul (1|M0)               acc0.0<1>:d   r4.2<0;1,0>:ud    r1.0<0;1,0>:uw   {I@4}
(W)     add (1|M0)               r5.0<1>:d     r5.0<0;1,0>:d     r6.0<0;1,0>:d    {Compacted,I@2}
(W)     macl (1|M0)              r6.0<1>:d     r4.2<0;1,0>:ud    r1.0<0;1,0>:d
        mov (16|M0)              r41.0<1>:f    0.0:f                               {Compacted}
        mov (16|M0)              r124.0<1>:f   0.0:f                               {Compacted}
        mov (16|M0)              r83.0<1>:f    0.0:f                               {Compacted}
        mov (16|M0)              r123.0<1>:f   0.0:f                               {Compacted}
        mov (16|M0)              r84.0<1>:f    0.0:f                               {Compacted}
        mov (16|M0)              r122.0<1>:f   0.0:f                               {Compacted}
        mov (16|M0)              r85.0<1>:f    0.0:f                               {Compacted}
        mov (16|M0)              r121.0<1>:f   0.0:f                               {Compacted}
(W)     add (1|M0)               r35.1<1>:d    r5.0<0;1,0>:d     r6.0<0;1,0>:d    {Compacted,I@1}
L672:
(W)     add (1|M0)               r1.0<1>:q     r35.0<0;1,0>:q    r125.0<0;1,0>:d  {I@1}
(W)     shl (1|M0)               r13.0<1>:d    r125.0<0;1,0>:d   10:w
(W)     mov (2|M0)               r2.8<1>:d     r1.0<1;1,0>:d                    {I@2}
(W)     add (1|M0)               r54.0<1>:d    r13.0<0;1,0>:d    128:w               {I@2}
(W)     mul (1|M0)               acc0.0<1>:ud  r2.8<0;1,0>:ud    0x900:uw              {I@2}
(W)     mul (1|M0)               r6.0<1>:d     r2.9<0;1,0>:d     0x900:uw
(W)     mach (1|M0)              r5.0<1>:d     r2.8<0;1,0>:ud    0x900:ud
(W)     mul (1|M0)               r3.4<1>:ud    r2.8<0;1,0>:ud    0x900:uw
(W)     shl (1|M0)               r55.0<1>:q    r54.0<0;1,0>:d    1:w               {I@5}
(W)     add (1|M0)               r3.5<1>:d     r5.0<0;1,0>:d     r6.0<0;1,0>:d    {I@3}
(W)     add (1|M0)               r56.0<1>:q    r55.0<0;1,0>:q    r3.1<0;1,0>:q    {Compacted,I@2}
(W)     add (1|M0)               r7.0<1>:q     r3.2<0;1,0>:q     r3.0<0;1,0>:q    {Compacted,I@2}
(W)     mov (1|M0)               r57.0<1>:uq   r56.0<0;1,0>:uq                  {Compacted,I@2}
(W)     add (1|M0)               r62.0<1>:q    r7.0<0;1,0>:q     256:w               {Compacted,I@2}
(W)     send.ugm (1|M0)          r58      r57  null:0  0x0            0x0240F580           {I@2,$2} // wr:1+0, rd:4; load.ugm.d32x64t.a64
(W)     send.ugm (1|M0)          r63      r62  null:0  0x0            0x0240F580           {I@1,$3} // wr:1+0, rd:4; load.ugm.d32x64t.a64
(W)     shl (1|M0)               r14.0<1>:q    r13.0<0;1,0>:d    1:w
(W)     mov (1|M0)               r20.0<1>:uq   r7.0<0;1,0>:uq                   {Compacted}
(W)     add (1|M0)               r15.0<1>:q    r14.0<0;1,0>:q    r3.1<0;1,0>:q    {Compacted,I@2}
(W)     send.ugm (1|M0)          r21      r20  null:0  0x0            0x0240F580           {I@2,$4} // wr:1+0, rd:4; load.ugm.d32x64t.a64
(W)     send.ugm (1|M0)          r16      r15  null:0  0x0            0x0240F580           {I@1,$5} // wr:1+0, rd:4; load.ugm.d32x64t.a64
(W)     add (1|M0)               r106.0<1>:q   r56.0<0;1,0>:q    256:w               {Compacted}
(W)     add (1|M0)               r8.0<1>:q     r7.0<0;1,0>:q     2048:w
(W)     add (1|M0)               r111.0<1>:q   r7.0<0;1,0>:q     512:w               {Compacted}
(W)     send.ugm (1|M0)          r107     r106  null:0  0x0            0x0240F580           {I@3,$6} // wr:1+0, rd:4; load.ugm.d32x64t.a64
(W)     send.ugm (1|M0)          r9       r8  null:0  0x0            0x0240F580           {I@2,$7} // wr:1+0, rd:4; load.ugm.d32x64t.a64
(W)     add (1|M0)               r13.0<1>:q    r56.0<0;1,0>:q    768:w               {Compacted}
        add (16|M0)              r125.0<1>:d   r125.0<1;1,0>:d   r4.13<0;1,0>:d
        cmp (16|M0)   (lt)f0.0   null<1>:d     r125.0<1;1,0>:d   r4.2<0;1,0>:d    {I@1}
        sync.nop                             null                             {Compacted,$3.dst}
        dpas.8x8 (16|M0)         r67:d         null:d            r63:s4            r58.0:b          {$2}
(W)     add (1|M0)               r64.0<1>:q    r56.0<0;1,0>:q    512:w               {Compacted,$2.src}
        sync.nop                             null                             {Compacted,$5.dst}
        dpas.8x8 (16|M0)         r25:d         null:d            r21:s4            r16.0:b          {$4}
        sync.nop                             null                             {$4.src}
(W)     send.ugm (1|M0)          r14      r111  null:0  0x0            0x0240F580           {$8} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mov (16|M0)              r94.0<1>:f    r69.0<1;1,0>:d                   {$2.dst}
(W)     add (1|M0)               r69.0<1>:q    r7.0<0;1,0>:q     768:w               {F@1}
        mov (16|M0)              r76.0<1>:f    r67.0<1;1,0>:d
        mov (16|M0)              r92.0<1>:f    r68.0<1;1,0>:d
(W)     send.ugm (1|M0)          r65      r64  null:0  0x0            0x0240F580           {A@1,$9} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mov (16|M0)              r96.0<1>:f    r70.0<1;1,0>:d
        mov (16|M0)              r98.0<1>:f    r71.0<1;1,0>:d
        mov (16|M0)              r100.0<1>:f   r72.0<1;1,0>:d
        mov (16|M0)              r102.0<1>:f   r73.0<1;1,0>:d
(W)     send.ugm (1|M0)          r70      r69  null:0  0x0            0x0240F580           {A@1,$10} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mov (16|M0)              r37.0<1>:f    r9.0<1;1,0>:hf                   {$7.dst}
        mov (16|M0)              r34.0<1>:f    r25.0<1;1,0>:d                   {$4.dst}
        mov (16|M0)              r40.0<1>:f    r26.0<1;1,0>:d
        mov (16|M0)              r89.0<1>:f    r9.16<1;1,0>:hf
        mad (16|M0)              acc2.0<1>:f   r121.0<1;0>:f     r37.0<1;0>:f      r34.0<1>:f       {Compacted,F@3}
        mad (16|M0)              acc3.0<1>:f   r85.0<1;0>:f      r37.0<1;0>:f      r40.0<1>:f       {Compacted,F@3}
        mov (16|M0)              r104.0<1>:f   r74.0<1;1,0>:d
        mad (16|M0)              acc2.0<1>:f   acc2.0<1;0>:f     r89.0<1;0>:f      r76.0<1>:f       {F@4}
        mov (16|M0)              r44.0<1>:f    r28.0<1;1,0>:d
        mov (16|M0)              r46.0<1>:f    r29.0<1;1,0>:d
        mov (16|M0)              r50.0<1>:f    r31.0<1;1,0>:d
        mov (16|M0)              r48.0<1>:f    r30.0<1;1,0>:d
        mov (16|M0)              r52.0<1>:f    r32.0<1;1,0>:d
        mad (16|M0)              r45.0<1>:f    r84.0<1;0>:f      r37.0<1;0>:f      r44.0<1>:f       {Compacted,F@5}
        mad (16|M0)              r47.0<1>:f    r123.0<1;0>:f     r37.0<1;0>:f      r46.0<1>:f       {Compacted,F@5}
        mad (16|M0)              r51.0<1>:f    r124.0<1;0>:f     r37.0<1;0>:f      r50.0<1>:f       {Compacted,F@5}
        mad (16|M0)              r49.0<1>:f    r83.0<1;0>:f      r37.0<1;0>:f      r48.0<1>:f       {Compacted,F@5}
        sync.nop                             null                             {Compacted,$8.dst}
        dpas.8x8 (16|M0)         r18:d         null:d            r14:s4            r107.0:b         {$6}
        sync.nop                             null                             {Compacted,$6.src}
(W)     send.ugm (1|M0)          r14      r13  null:0  0x0            0x0240F580           {$11} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mad (16|M0)              r53.0<1>:f    r41.0<1;0>:f      r37.0<1;0>:f      r52.0<1>:f       {Compacted,F@5}
        mad (16|M0)              r97.0<1>:f    r45.0<1;0>:f      r89.0<1;0>:f      r96.0<1>:f       {Compacted,F@5}
        mad (16|M0)              r99.0<1>:f    r47.0<1;0>:f      r89.0<1;0>:f      r98.0<1>:f       {Compacted,F@5}
        mov (16|M0)              r26.0<1>:f    r18.0<1;1,0>:d                   {$6.dst}
(W)     add (1|M0)               r18.0<1>:q    r7.0<0;1,0>:q     1024:w               {Compacted,F@1}
        mad (16|M0)              r103.0<1>:f   r51.0<1;0>:f      r89.0<1;0>:f      r102.0<1>:f
        mov (16|M0)              r45.0<1>:f    r10.0<1;1,0>:hf
        mov (16|M0)              r48.0<1>:f    r19.0<1;1,0>:d
        sync.nop                             null                             {$10.dst}
        dpas.8x8 (16|M0)         r74:d         null:d            r70:s4            r65.0:b          {$9}
        mov (16|M0)              r50.0<1>:f    r20.0<1;1,0>:d
        mov (16|M0)              r52.0<1>:f    r21.0<1;1,0>:d
        mov (16|M0)              r54.0<1>:f    r22.0<1;1,0>:d
(W)     send.ugm (1|M0)          r19      r18  null:0  0x0            0x0240F580           {A@1,$12} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mov (16|M0)              r60.0<1>:f    r24.0<1;1,0>:d
        mad (16|M0)              r101.0<1>:f   r49.0<1;0>:f      r89.0<1;0>:f      r100.0<1>:f      {Compacted}
        mad (16|M0)              r105.0<1>:f   r53.0<1;0>:f      r89.0<1;0>:f      r104.0<1>:f      {Compacted}
        mov (16|M0)              r58.0<1>:f    r23.0<1;1,0>:d
        mov (16|M0)              r62.0<1>:f    r25.0<1;1,0>:d
        mad (16|M0)              r55.0<1>:f    r99.0<1;0>:f      r45.0<1;0>:f      r54.0<1>:f
        mov (16|M0)              r112.0<1>:f   r80.0<1;1,0>:d                   {$9.dst}
        mad (16|M0)              r61.0<1>:f    r103.0<1;0>:f     r45.0<1;0>:f      r60.0<1>:f       {F@7}
        mov (16|M0)              r99.0<1>:f    r10.16<1;1,0>:hf
        mov (16|M0)              r110.0<1>:f   r79.0<1;1,0>:d
        mov (16|M0)              r6.0<1>:f     r81.0<1;1,0>:d
        mad (16|M0)              r59.0<1>:f    r101.0<1;0>:f     r45.0<1;0>:f      r58.0<1>:f       {Compacted,F@7}
        mad (16|M0)              r63.0<1>:f    r105.0<1;0>:f     r45.0<1;0>:f      r62.0<1>:f       {Compacted,F@7}
(W)     add (1|M0)               r54.0<1>:q    r56.0<0;1,0>:q    1024:w               {Compacted,F@7}
        mad (16|M0)              r1.0<1>:f     r61.0<1;0>:f      r99.0<1;0>:f      r112.0<1>:f      {Compacted,F@5}
(W)     add (1|M0)               r61.0<1>:q    r7.0<0;1,0>:q     1280:w               {Compacted,F@1}
        mad (16|M0)              r111.0<1>:f   r59.0<1;0>:f      r99.0<1;0>:f      r110.0<1>:f      {Compacted}
(W)     send.ugm (1|M0)          r57      r54  null:0  0x0            0x0240F580           {A@1,$13} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mad (16|M0)              r8.0<1>:f     r63.0<1;0>:f      r99.0<1;0>:f      r6.0<1>:f        {Compacted}
(W)     send.ugm (1|M0)          r62      r61  null:0  0x0            0x0240F580           {A@1,$14} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mad (16|M0)              acc3.0<1>:f   acc3.0<1;0>:f     r89.0<1;0>:f      r92.0<1>:f       {Compacted}
        mov (16|M0)              r42.0<1>:f    r27.0<1;1,0>:d
        mad (16|M0)              acc2.0<1>:f   acc2.0<1;0>:f     r45.0<1;0>:f      r26.0<1>:f       {Compacted}
        mov (16|M0)              r106.0<1>:f   r77.0<1;1,0>:d
        mov (16|M0)              r108.0<1>:f   r78.0<1;1,0>:d
        mad (16|M0)              r53.0<1>:f    r97.0<1;0>:f      r45.0<1;0>:f      r52.0<1>:f       {Compacted}
        mad (16|M0)              r43.0<1>:f    r122.0<1;0>:f     r37.0<1;0>:f      r42.0<1>:f       {Compacted,F@5}
        sync.nop                             null                             {Compacted,F@5}
        sync.nop                             null                             {Compacted,$12.dst}
        dpas.8x8 (16|M0)         r23:d         null:d            r19:s4            r14.0:b          {$11}
        mad (16|M0)              acc3.0<1>:f   acc3.0<1;0>:f     r45.0<1;0>:f      r48.0<1>:f       {Compacted}
        mov (16|M0)              r37.0<1>:f    r11.0<1;1,0>:hf
        mad (16|M0)              r109.0<1>:f   r55.0<1;0>:f      r99.0<1;0>:f      r108.0<1>:f      {Compacted,F@5}
        mad (16|M0)              r107.0<1>:f   r53.0<1;0>:f      r99.0<1;0>:f      r106.0<1>:f      {Compacted,F@5}
        mov (16|M0)              r48.0<1>:f    r28.0<1;1,0>:d                   {$11.dst}
        mad (16|M0)              r95.0<1>:f    r43.0<1;0>:f      r89.0<1;0>:f      r94.0<1>:f       {Compacted,F@6}
        mov (16|M0)              r44.0<1>:f    r26.0<1;1,0>:d
        mov (16|M0)              r46.0<1>:f    r27.0<1;1,0>:d
(W)     add (1|M0)               r106.0<1>:q   r56.0<0;1,0>:q    1280:w               {Compacted,F@5}
        mad (16|M0)              r49.0<1>:f    r111.0<1;0>:f     r37.0<1;0>:f      r48.0<1>:f       {Compacted,F@4}
(W)     add (1|M0)               r111.0<1>:q   r7.0<0;1,0>:q     1536:w               {Compacted,F@1}
        mov (16|M0)              r82.0<1>:f    r74.0<1;1,0>:d
(W)     send.ugm (1|M0)          r14      r111  null:0  0x0            0x0240F580           {I@1,$15} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mad (16|M0)              r51.0<1>:f    r95.0<1;0>:f      r45.0<1;0>:f      r50.0<1>:f       {Compacted}
        mad (16|M0)              r47.0<1>:f    r109.0<1;0>:f     r37.0<1;0>:f      r46.0<1>:f       {Compacted}
        mad (16|M0)              r45.0<1>:f    r107.0<1;0>:f     r37.0<1;0>:f      r44.0<1>:f       {Compacted}
(W)     send.ugm (1|M0)          r107     r106  null:0  0x0            0x0240F580           {F@1,$0} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mov (16|M0)              r102.0<1>:f   r75.0<1;1,0>:d
        mov (16|M0)              r104.0<1>:f   r76.0<1;1,0>:d
        sync.nop                             null                             {Compacted,$14.dst}
        dpas.8x8 (16|M0)         r66:d         null:d            r62:s4            r57.0:b          {$13}
        mad (16|M0)              acc2.0<1>:f   acc2.0<1;0>:f     r99.0<1;0>:f      r82.0<1>:f       {Compacted}
(W)     add (1|M0)               r64.0<1>:q    r56.0<0;1,0>:q    1536:w               {Compacted,$13.src}
        mad (16|M0)              r105.0<1>:f   r51.0<1;0>:f      r99.0<1;0>:f      r104.0<1>:f      {Compacted,F@2}
        mad (16|M0)              acc3.0<1>:f   acc3.0<1;0>:f     r99.0<1;0>:f      r102.0<1>:f      {Compacted}
        mov (16|M0)              r96.0<1>:f    r69.0<1;1,0>:d                   {$13.dst}
(W)     add (1|M0)               r69.0<1>:q    r7.0<0;1,0>:q     1792:w               {F@1}
        mov (16|M0)              r74.0<1>:f    r66.0<1;1,0>:d
        mov (16|M0)              r92.0<1>:f    r67.0<1;1,0>:d
        mov (16|M0)              r94.0<1>:f    r68.0<1;1,0>:d
(W)     send.ugm (1|M0)          r65      r64  null:0  0x0            0x0240F580           {A@1,$1} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mov (16|M0)              r98.0<1>:f    r70.0<1;1,0>:d
        mov (16|M0)              r100.0<1>:f   r71.0<1;1,0>:d
        mov (16|M0)              r104.0<1>:f   r73.0<1;1,0>:d
        mov (16|M0)              r102.0<1>:f   r72.0<1;1,0>:d
(W)     send.ugm (1|M0)          r70      r69  null:0  0x0            0x0240F580           {A@1,$2} // wr:1+0, rd:4; load.ugm.d32x64t.a64
        mov (16|M0)              r32.0<1>:f    r23.0<1;1,0>:d
        mov (16|M0)              r40.0<1>:f    r24.0<1;1,0>:d
        mov (16|M0)              r42.0<1>:f    r25.0<1;1,0>:d
        mad (16|M0)              acc2.0<1>:f   acc2.0<1;0>:f     r37.0<1;0>:f      r32.0<1>:f       {Compacted,F@3}
        mov (16|M0)              r89.0<1>:f    r11.16<1;1,0>:hf
        mad (16|M0)              acc3.0<1>:f   acc3.0<1;0>:f     r37.0<1;0>:f      r40.0<1>:f       {Compacted,F@4}
        mad (16|M0)              acc2.0<1>:f   acc2.0<1;0>:f     r89.0<1;0>:f      r74.0<1>:f       {F@2}
        mov (16|M0)              r52.0<1>:f    r30.0<1;1,0>:d
        mov (16|M0)              r50.0<1>:f    r29.0<1;1,0>:d
        sync.nop                             null                             {Compacted,$0.dst}
        dpas.8x8 (16|M0)         r18:d         null:d            r14:s4            r107.0:b         {$15}
        mad (16|M0)              r43.0<1>:f    r105.0<1;0>:f     r37.0<1;0>:f      r42.0<1>:f       {Compacted}
        mad (16|M0)              r97.0<1>:f    r45.0<1;0>:f      r89.0<1;0>:f      r96.0<1>:f       {Compacted}
        mad (16|M0)              acc3.0<1>:f   acc3.0<1;0>:f     r89.0<1;0>:f      r92.0<1>:f       {Compacted}
        mad (16|M0)              r53.0<1>:f    r8.0<1;0>:f       r37.0<1;0>:f      r52.0<1>:f       {Compacted,F@5}
        mad (16|M0)              r51.0<1>:f    r1.0<1;0>:f       r37.0<1;0>:f      r50.0<1>:f       {Compacted,F@5}
        mov (16|M0)              r45.0<1>:f    r12.0<1;1,0>:hf
        mov (16|M0)              r26.0<1>:f    r18.0<1;1,0>:d                   {$15.dst}
        mad (16|M0)              r99.0<1>:f    r47.0<1;0>:f      r89.0<1;0>:f      r98.0<1>:f       {Compacted}
        mad (16|M0)              r101.0<1>:f   r49.0<1;0>:f      r89.0<1;0>:f      r100.0<1>:f      {Compacted}
        mad (16|M0)              r95.0<1>:f    r43.0<1;0>:f      r89.0<1;0>:f      r94.0<1>:f       {F@7}
        mov (16|M0)              r48.0<1>:f    r19.0<1;1,0>:d
        mov (16|M0)              r54.0<1>:f    r22.0<1;1,0>:d
        mov (16|M0)              r58.0<1>:f    r23.0<1;1,0>:d
        mov (16|M0)              r60.0<1>:f    r24.0<1;1,0>:d
        mov (16|M0)              r62.0<1>:f    r25.0<1;1,0>:d
        mad (16|M0)              r105.0<1>:f   r53.0<1;0>:f      r89.0<1;0>:f      r104.0<1>:f      {Compacted}
        sync.nop                             null                             {Compacted,$2.dst}
        dpas.8x8 (16|M0)         r74:d         null:d            r70:s4            r65.0:b          {$1}
        mov (16|M0)              r52.0<1>:f    r21.0<1;1,0>:d
        mad (16|M0)              r103.0<1>:f   r51.0<1;0>:f      r89.0<1;0>:f      r102.0<1>:f      {Compacted}
        mov (16|M0)              r50.0<1>:f    r20.0<1;1,0>:d
        mad (16|M0)              acc2.0<1>:f   acc2.0<1;0>:f     r45.0<1;0>:f      r26.0<1>:f       {Compacted}
        mad (16|M0)              r55.0<1>:f    r99.0<1;0>:f      r45.0<1;0>:f      r54.0<1>:f       {Compacted,F@7}
        mad (16|M0)              r59.0<1>:f    r101.0<1;0>:f     r45.0<1;0>:f      r58.0<1>:f       {Compacted,F@7}
        mad (16|M0)              r63.0<1>:f    r105.0<1;0>:f     r45.0<1;0>:f      r62.0<1>:f       {Compacted,F@7}
        mad (16|M0)              r53.0<1>:f    r97.0<1;0>:f      r45.0<1;0>:f      r52.0<1>:f       {Compacted,F@7}
        mad (16|M0)              r61.0<1>:f    r103.0<1;0>:f     r45.0<1;0>:f      r60.0<1>:f       {Compacted,F@7}
        mad (16|M0)              r51.0<1>:f    r95.0<1;0>:f      r45.0<1;0>:f      r50.0<1>:f       {Compacted,F@7}
        mov (16|M0)              r82.0<1>:f    r74.0<1;1,0>:d                   {$1.dst}
        mov (16|M0)              r102.0<1>:f   r75.0<1;1,0>:d
        mov (16|M0)              r104.0<1>:f   r76.0<1;1,0>:d
        mov (16|M0)              r106.0<1>:f   r77.0<1;1,0>:d
        mov (16|M0)              r108.0<1>:f   r78.0<1;1,0>:d
        mov (16|M0)              r110.0<1>:f   r79.0<1;1,0>:d
        mov (16|M0)              r112.0<1>:f   r80.0<1;1,0>:d
        mov (16|M0)              r6.0<1>:f     r81.0<1;1,0>:d
        mad (16|M0)              acc3.0<1>:f   acc3.0<1;0>:f     r45.0<1;0>:f      r48.0<1>:f
        mov (16|M0)              r99.0<1>:f    r12.16<1;1,0>:hf
        mad (16|M0)              r121.0<1>:f   acc2.0<1;0>:f     r99.0<1;0>:f      r82.0<1>:f       {Compacted,F@1}
        mad (16|M0)              r85.0<1>:f    acc3.0<1;0>:f     r99.0<1;0>:f      r102.0<1>:f      {Compacted}
        mad (16|M0)              r122.0<1>:f   r51.0<1;0>:f      r99.0<1;0>:f      r104.0<1>:f      {Compacted}
        mad (16|M0)              r84.0<1>:f    r53.0<1;0>:f      r99.0<1;0>:f      r106.0<1>:f      {Compacted}
        mad (16|M0)              r123.0<1>:f   r55.0<1;0>:f      r99.0<1;0>:f      r108.0<1>:f      {Compacted}
        mad (16|M0)              r83.0<1>:f    r59.0<1;0>:f      r99.0<1;0>:f      r110.0<1>:f      {Compacted}
        mad (16|M0)              r124.0<1>:f   r61.0<1;0>:f      r99.0<1;0>:f      r112.0<1>:f      {Compacted}
        mad (16|M0)              r41.0<1>:f    r63.0<1;0>:f      r99.0<1;0>:f      r6.0<1>:f        {Compacted}
(f0.0)  goto.b (16|M0)                       L3296                  L672
L3296:
        join (16|M0)                         L3312
L3312:
(W)     shl (1|M0)               r1.0<1>:d     r33.1<0;1,0>:d    4:w
        mov (16|M0)              r5.0<4>:uw    r126.0<1;1,0>:uw                 {F@1}
(W)     add (1|M0)               r2.4<1>:q     r4.7<0;1,0>:d     r1.0<0;1,0>:d    {I@2}
(W)     shl (1|M0)               r13.0<1>:q    r4.6<0;1,0>:d     2:w
        add (16|M0)              r7.0<1>:q     r2.4<0;1,0>:q     r5.0<4;1,0>:uw   {I@2}
        shl (16|M0)              r9.0<1>:q     r7.0<1;1,0>:q     2:w               {Compacted,I@1}
        add (16|M0)              r11.0<1>:q    r9.0<1;1,0>:q     r4.0<0;1,0>:q    {Compacted,I@1}
        add (16|M0)              r14.0<1>:q    r11.0<1;1,0>:q    r13.0<0;1,0>:q   {Compacted,I@1}
        add (16|M0)              r16.0<1>:q    r14.0<1;1,0>:q    r13.0<0;1,0>:q   {Compacted,I@1}
        add (16|M0)              r18.0<1>:q    r16.0<1;1,0>:q    r13.0<0;1,0>:q   {Compacted,I@1}
        add (16|M0)              r20.0<1>:q    r18.0<1;1,0>:q    r13.0<0;1,0>:q   {Compacted,I@1}
        add (16|M0)              r22.0<1>:q    r20.0<1;1,0>:q    r13.0<0;1,0>:q   {Compacted,I@1}
        add (16|M0)              r24.0<1>:q    r22.0<1;1,0>:q    r13.0<0;1,0>:q   {Compacted,I@1}
        add (16|M0)              r26.0<1>:q    r24.0<1;1,0>:q    r13.0<0;1,0>:q   {Compacted,I@1}
(W)     mov (16|M0)              r127.0<1>:ud  r33.0<1;1,0>:ud                  {Compacted}
        send.ugm (16|M0)         null     r11  r121:1  0x0            0x04000584           {$3} // wr:2+1, rd:0; store.ugm.d32.a64
        send.ugm (16|M0)         null     r14  r85:1  0x0            0x04000584           {$4} // wr:2+1, rd:0; store.ugm.d32.a64
        send.ugm (16|M0)         null     r16  r122:1  0x0            0x04000584           {$5} // wr:2+1, rd:0; store.ugm.d32.a64
        send.ugm (16|M0)         null     r18  r84:1  0x0            0x04000584           {$6} // wr:2+1, rd:0; store.ugm.d32.a64
        send.ugm (16|M0)         null     r20  r123:1  0x0            0x04000584           {$7} // wr:2+1, rd:0; store.ugm.d32.a64
        send.ugm (16|M0)         null     r22  r83:1  0x0            0x04000584           {$8} // wr:2+1, rd:0; store.ugm.d32.a64
        send.ugm (16|M0)         null     r24  r124:1  0x0            0x04000584           {$9} // wr:2+1, rd:0; store.ugm.d32.a64
        send.ugm (16|M0)         null     r26  r41:1  0x0            0x04000584           {I@2,$10} // wr:2+1, rd:0; store.ugm.d32.a64
(W)     send.gtwy (1|M0)         null     r127  null:0  0x0            0x02000010           {EOT,I@1,$11} // wr:1+0, rd:0; end of thread
L3616:
(W)     mov (16|M0)              null<1>:ud    0x6FEA62A5:ud
(W)     mov (16|M0)              null<1>:ud    0x99D0CABE:ud
(W)     mov (16|M0)              null<1>:ud    0x0:ud
